"""What a check is, and what it finds: data, of which docs/doctor.md is made too."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from cli.doctor.subject import Subject

Outcome = Literal["ok", "warn", "fail", "unknown"]


@dataclass(frozen=True)
class Finding:
    """What was found, and the mend where that is not as it must be."""

    outcome: Outcome
    what: str
    mend: str | None = None


@dataclass(frozen=True)
class Problem:
    """A way in which something may be wrong. The `{names}` in its mend are filled in where it is found."""

    outcome: Literal["warn", "fail"]
    wrong: str
    mend: str

    def found(self, what: str, **names: object) -> Finding:
        """This problem, here."""
        return Finding(self.outcome, what, self.mend.format(**names))


@dataclass(frozen=True)
class Check:
    """One look at some part of the subject: `look` gives what it finds, at least one finding.

    `hindered` is the problem that there is if it raises TandemError or OSError, whose sentence then says what was found;
    `problems` are the others. It is not made if a check that it `needs` fails or is itself not made.
    """

    name: str
    look: Callable[[Subject], Iterable[Finding]]
    hindered: Problem
    problems: tuple[Problem, ...] = ()
    needs: tuple[str, ...] = ()

    def rows(self) -> Iterator[str]:
        """The rows of the table in docs/doctor.md."""
        for problem in (self.hindered, *self.problems):
            mend = re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), problem.mend)
            yield f"| `{self.name}` | {problem.outcome} | {problem.wrong} | {mend} |"


def ok(what: str) -> Finding:
    """It is as it must be."""
    return Finding("ok", what)


def unknown(what: str) -> Finding:
    """It cannot be told."""
    return Finding("unknown", what)


def unless(findings: Iterable[Finding], what: str) -> Iterator[Finding]:
    """The findings; `ok` if there are none."""
    found = list(findings)
    yield from found or [ok(what)]
