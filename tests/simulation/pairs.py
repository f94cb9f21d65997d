"""The interleaved pairs of steps: what one process did while another one was before a step of its own."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

Pair = tuple[str, str]
"""The step before which a process stood, and the step that another one did meanwhile, each as `process: step`."""

_VERBS = ("commit to", "write to")
_TABLES = {"views": "batch views", "realtime": "realtime views"}


@cache
def step_name(what: str) -> str:
    """An I/O call without what tells one table of a kind from others: `read archive`, `commit to publications`."""
    verb = next((one for one in _VERBS if what.startswith(f"{one} /")), what.partition(" ")[0])
    address = what.removeprefix(f"{verb} ")
    if not address.startswith("/"):
        return what
    _, kind, *names = address.removeprefix("/").split("/")
    if kind == "control":
        table = names[0]
    elif kind == "log":
        table = next((one for one in ("archive", "events", "quarantine") if one in names), kind)
    else:
        table = _TABLES.get(kind, kind)
    return f"{verb} {table}"


@dataclass(frozen=True)
class Coverage:
    """Of the pairs that were counted: `stood` are the steps that processes stood before, `done` what others did meanwhile."""

    pairs: Mapping[Pair, int]

    @property
    def stood(self) -> list[str]:
        return sorted({one for one, _ in self.pairs})

    @property
    def done(self) -> list[str]:
        return sorted({other for _, other in self.pairs})

    @property
    def never(self) -> list[Pair]:
        """The pairs that were never interleaved, of steps that were both reached."""
        return [(one, other) for one in self.stood for other in self.done if (one, other) not in self.pairs]

    def table(self) -> str:
        """By process the percent of pairs that were interleaved, as Markdown."""
        stood, done = Counter(map(_process, self.stood)), Counter(map(_process, self.done))
        counts = Counter((_process(one), _process(other)) for one, other in self.pairs)
        lines = ["| stands / does | steps | " + " | ".join(done) + " |", "| --- | ---: |" + " ---: |" * len(done)]
        for one, number in stood.items():
            shares = (f"{100 * counts[one, other] / (number * done[other]):.0f}" for other in done)
            lines.append(f"| {one} | {number} | " + " | ".join(shares) + " |")
        return "\n".join(lines)


def _process(step: str) -> str:
    return step.partition(":")[0]
