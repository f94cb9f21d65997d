"""`tandem doctor`: check the machine and the project, and explain how to fix each problem."""

from collections.abc import Iterator
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from tandem.cli.command.call import Call, Output
from tandem.cli.doctor import alerts, disk, leases, log, machine, polling, sinks, state, tables
from tandem.cli.doctor.check import Check, Finding, unknown
from tandem.cli.doctor.subject import Subject
from tandem.infra import clock
from tandem.views.errors import TandemError

CHECKS: Final[tuple[Check, ...]] = (
    *machine.CHECKS,
    *disk.CHECKS,
    *polling.CHECKS,
    *leases.CHECKS,
    *log.CHECKS,
    *tables.CHECKS,
    *state.CHECKS,
    *sinks.CHECKS,
    *alerts.CHECKS,
)
"""In order of execution: a check comes after the checks that it needs."""
_SHOWN: Final = {"ok": "ok", "warn": "WARN", "fail": "NOT OK", "unknown": "-"}


def run(call: Call) -> Output:
    """Check the machine, the broker, the tables and the project's state, and explain how to fix each problem.

    The checks cover Java, Python, jars, ports, disk, clock, broker, topics, tables, locks, leases, files that earlier runs
    left, sinks and alerts.
    docs/doctor.md lists the findings of each check. Each finding has one of these outcomes:

    * `ok`: in order
    * `warn`: works now, but may fail later
    * `fail`: must be fixed; the exit code is 1
    * `unknown`: could not be checked, because something that the check needs is missing

    The command changes nothing and starts neither Spark nor a broker.
    """
    found = list(examine(Subject(call, clock.now())))
    healthy = all(finding.outcome != "fail" for _, finding in found)
    return Output({"ok": healthy, "checks": [_document(*each) for each in found]}, _shown(found), 0 if healthy else 1)


def examine(subject: Subject) -> Iterator[tuple[str, Finding]]:
    """The findings of every check, with the check's name."""
    missing: set[str] = set()
    for check in CHECKS:
        if needed := [name for name in check.needs if name in missing]:
            findings = [unknown(f"not checked; see {needed[0]}")]
        else:
            findings = look(check, subject)
        if any(finding.outcome in ("fail", "unknown") for finding in findings):
            missing.add(check.name)
        yield from ((check.name, finding) for finding in findings)


def look(check: Check, subject: Subject) -> list[Finding]:
    """The findings of one check."""
    found: list[Finding] = []
    try:
        found.extend(check.look(subject))
    except (TandemError, OSError) as error:
        found.append(check.hindered.found(str(error)))
    return found


def _document(check: str, finding: Finding) -> dict[str, Any]:
    return {"check": check, "outcome": finding.outcome, "found": finding.what, "fix": finding.fix}


def _shown(found: list[tuple[str, Finding]]) -> Table:
    table = Table(show_header=False, box=None)
    for check, finding in found:
        table.add_row(_SHOWN[finding.outcome], check, Text(finding.what))
        if finding.fix:
            table.add_row("", "", Text(f"fix: {finding.fix}"))
    return table
