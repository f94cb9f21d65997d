"""The check of leases: who may write the tables of an object store now."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok
from tandem.cli.doctor.subject import Subject
from tandem.ledger.delta.one_writer import write_leases

UNREADABLE: Final = FailedCheck("fail", "a lease of tables on an object store cannot be read", "see `tables`")


def _leases(subject: Subject) -> Iterator[Finding]:
    tables = subject.tables
    if tables.local:
        yield ok("the tables are in a folder: lock files decide who writes")
        return
    taken = [(name, write_leases.written(tables, name)) for name in write_leases.names(tables)]
    if not any(found for _, found in taken):
        yield ok("no run has taken a lease yet")
    for name, found in taken:
        if found is None:
            continue
        record, at = found
        until = at + timedelta(seconds=record.duration_s)
        age = (subject.now - at) / timedelta(seconds=1)
        by = f"{record.owner}, token {record.token}"
        if not record.held:
            yield ok(f"'{name}' tables: free for {age:.0f} s, after {by}")
        elif until < subject.now:
            # The owner's clock and this one may differ, so this may be wrong: the next run waits by its own clock.
            yield ok(f"'{name}' tables: not renewed for {age:.0f} s by {by}; the next run takes it")
        else:
            ends = f"{until.isoformat(timespec='seconds')} unless renewed"
            yield ok(f"'{name}' tables: held by {by}, renewed {age:.0f} s ago, until {ends}")


CHECKS: Final = (Check("leases", _leases, UNREADABLE, needs=("state",)),)
