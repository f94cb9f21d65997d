"""Checks, problems and findings as data. docs/doctor.md is generated from them."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from tandem.cli.doctor.subject import Subject

Outcome = Literal["ok", "warn", "fail", "unknown"]


@dataclass(frozen=True)
class Finding:
    """A finding, and the fix if it is a problem."""

    outcome: Outcome
    what: str
    fix: str | None = None


@dataclass(frozen=True)
class FailedCheck:
    """A possible problem. `found` fills in the `{names}` of its fix."""

    outcome: Literal["warn", "fail"]
    wrong: str
    fix: str

    def found(self, what: str, **names: object) -> Finding:
        """Return the finding of this problem."""
        return Finding(self.outcome, what, self.fix.format(**names))


@dataclass(frozen=True)
class Check:
    """One check of the subject. `look` yields at least one finding.

    `hindered` is the problem if `look` raises TandemError or OSError; the error's sentence becomes the finding. `problems` are
    the other problems. The check is skipped if a check that it `needs` failed or was skipped.
    """

    name: str
    look: Callable[[Subject], Iterable[Finding]]
    hindered: FailedCheck
    problems: tuple[FailedCheck, ...] = ()
    needs: tuple[str, ...] = ()

    def rows(self) -> Iterator[str]:
        """Yield the rows of the table in docs/doctor.md."""
        for problem in (self.hindered, *self.problems):
            fix = re.sub(r"\{(\w+)\}", lambda name: name[1].upper(), problem.fix)
            yield f"| `{self.name}` | {problem.outcome} | {problem.wrong} | {fix} |"


def ok(what: str) -> Finding:
    """Return a finding without a problem."""
    return Finding("ok", what)


def unknown(what: str) -> Finding:
    """Return a finding of something that could not be checked."""
    return Finding("unknown", what)


def unless(findings: Iterable[Finding], what: str) -> Iterator[Finding]:
    """Yield the findings, or `ok` if there are none."""
    found = list(findings)
    yield from found or [ok(what)]
