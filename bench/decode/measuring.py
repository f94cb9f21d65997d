"""What decoding costs, by format; beside another checkout where one is given. Neither Kafka nor Spark takes part."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from rich.table import Table

from tandem.bench.commands import environ
from tandem.bench.decode import trial
from tandem.bench.peers.estimates import EstimateError, middle
from tandem.infra.folders import ROOT
from tandem.views.errors import TandemError

Tree = Literal["this", "other"]
LEAST: Final = 0.95
"""A format whose CPU time allows less of the other checkout's speed than this is slower."""


@dataclass(frozen=True)
class DecodeScale:
    """The events of a run, and the runs of each format."""

    events: int
    rounds: int


FULL: Final = DecodeScale(100_000, 7)
QUICK: Final = DecodeScale(20_000, 3)


@dataclass(frozen=True)
class DecodedFormat:
    """A format: events a second and CPU microseconds an event in each checkout.

    `ratios` are of the other checkout's CPU time by this one's, run by run: how many times as fast this one is. `right` is
    whether all runs of this checkout read every record, and all formats of one event type read the same events.
    """

    name: str
    per_second: EstimateError
    cpu_us: EstimateError
    other_cpu_us: EstimateError | None
    ratio: EstimateError | None
    right: bool


def measure(scale: DecodeScale, beside: Path | None) -> Iterator[DecodedFormat]:
    """Each format, by turns with the other checkout. Raises TandemError if a run fails."""
    digests: dict[str, str] = {}
    for name, parts in trial.FORMATS.items():
        runs: dict[Tree, list[dict[str, Any]]] = {"this": [], "other": []}
        for _ in range(scale.rounds):
            runs["this"].append(_run(ROOT, name, scale.events))
            if beside is not None:
                runs["other"].append(_run(beside, name, scale.events))
        ours, theirs = ([1e6 * run["cpu_s"] / scale.events for run in of_one] for of_one in runs.values())
        digest = digests.setdefault(parts()[0].__name__, runs["this"][0]["digest"])
        yield DecodedFormat(
            name=name,
            per_second=middle([scale.events / run["seconds"] for run in runs["this"]]),
            cpu_us=middle(ours),
            other_cpu_us=middle(theirs) if theirs else None,
            ratio=middle([other / this for this, other in zip(ours, theirs, strict=True)]) if theirs else None,
            right=all(not run["rejects"] and run["digest"] == digest for run in runs["this"]),
        )


def _run(root: Path, name: str, events: int) -> dict[str, Any]:
    """One process of a checkout: its definitions are imported from there, the program is this one's."""
    command = [sys.executable, "-P", str(Path(trial.__file__).resolve()), name, str(events)]
    path = f"{root / 'src'}:{root}"
    done = subprocess.run(command, env=environ({"PYTHONPATH": path}), cwd=root, check=False, capture_output=True, text=True)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise TandemError(f"the checkout {root} cannot decode {name}: {last}")
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def document(formats: Sequence[DecodedFormat]) -> dict[str, Any]:
    """All figures; `right` if all formats are."""
    return {
        "right": all(each.right for each in formats),
        "slower": [each.name for each in formats if each.ratio is not None and each.ratio.value < LEAST],
        "formats": [
            {
                "format": each.name,
                "events_per_s": round(each.per_second.value),
                "cpu_us": round(each.cpu_us.value, 3),
                "other_cpu_us": each.other_cpu_us and round(each.other_cpu_us.value, 3),
                "ratio": each.ratio and round(each.ratio.value, 3),
                "ratio_low": each.ratio and round(each.ratio.low or 0, 3),
                "ratio_high": each.ratio and round(each.ratio.high or 0, 3),
                "right": each.right,
            }
            for each in formats
        ],
    }


def table(formats: Sequence[DecodedFormat]) -> Table:
    """A line for each format."""
    shown = Table(title="decoding, on one core", title_justify="left")
    for heading in ("format", "events/s", "CPU µs an event", "the other's", "times as fast [least, most]", "right"):
        shown.add_column(heading, justify="left" if heading == "format" else "right")
    for each in formats:
        other = "" if each.other_cpu_us is None else f"{each.other_cpu_us.value:.2f}"
        ratio = "" if each.ratio is None else f"{each.ratio.value:.2f} [{each.ratio.low:.2f}, {each.ratio.high:.2f}]"
        figures = (f"{each.per_second.value:,.0f}", f"{each.cpu_us.value:.2f}")
        shown.add_row(each.name, *figures, other, ratio, "yes" if each.right else "NO")
    return shown
