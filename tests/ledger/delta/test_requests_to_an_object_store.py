"""How many requests an operation on a table costs, as docs/object-store.md says: who adds one sees it here."""

import re
from collections.abc import Callable
from functools import partial
from itertools import takewhile

import pyarrow as pa

from tandem.infra.folders import ROOT
from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal
from tandem.ledger.delta.one_writer import write_leases
from tandem.ledger.delta.one_writer.write_leases import Owner
from tandem.ledger.delta.watched_table import POLL_REQUESTS, Watched
from tests.infra.storage.s3 import Faults, a_bucket
from tests.ledger.tiny import AT

ALL = ("GET", "HEAD", "PUT", "POST", "DELETE")
OWNER = Owner("tandem test", "here", 1, AT, place="here")
COLUMNS = pa.schema([("x", pa.int64())])


def documented() -> dict[str, tuple[int, int, int]]:
    """By operation: requests whatever the table is, requests for each commit since the checkpoint, and both for 8 commits."""
    lines = (ROOT / "docs" / "object-store.md").read_text("utf-8").partition("| operation | requests |")[2].splitlines()[2:]
    found = {}
    for line in takewhile(bool, lines):
        operation, requests, example = (cell.strip() for cell in line.strip("|").split("|"))
        parts = re.fullmatch(r"(\d+)(?: \+ (\d+) v)?", requests)
        assert parts, requests
        found[operation.partition(":")[0]] = (int(parts[1]), int(parts[2] or 0), int(example))
    return found


def test_the_documented_requests_are_those_that_are_sent() -> None:
    faults, found = Faults(), documented()
    with a_bucket(faults) as (url, options):
        tables = Tables(url, options)
        journal = Journal(tables, tables.control("gaps"), COLUMNS)

        def sent(work: Callable[[], object]) -> int:
            faults.plan("", ALL, lambda _: False)
            work()
            return len(faults.requests)

        def entry() -> object:
            return journal.add(lambda _: {"x": 1})

        for commits in (8, 20):
            while (handle := delta_tables.open_table(tables, journal.address)) is None or handle.version() < commits - 1:
                entry()
            watched = Watched(tables, journal.address, lambda handle: handle and handle.version())
            watched.read()
            row = pa.Table.from_pylist([{"number": 1000 + commits, "id": "a", "x": 1}], journal.schema)
            fixed = {operation: (base + each * commits, each * 8 + base) for operation, (base, each, _) in found.items()}
            measured = {
                "open a table": sent(lambda: delta_tables.open_table(tables, journal.address)),
                "look at an open table that has not changed": sent(watched.read),
                "add an entry to an open journal": sent(entry),
                "look at an open table that has one more commit": sent(watched.read),
            }
            newest = delta_tables.reopen(handle)
            measured["commit one file"] = sent(partial(delta_tables.conditional_append, newest, row))
            assert measured["look at an open table that has not changed"] == POLL_REQUESTS
            lease = write_leases.take(tables, "views", OWNER, patience=0, say=print)
            table = delta_tables.create_table(tables, tables.view("v", f"of-{commits}"), COLUMNS, {})
            while table.version() < commits - 1:
                delta_tables.conditional_append(table, pa.table({"x": [1]}, COLUMNS))
            measured["claim an open table"] = sent(partial(retries.claim, table, lease))
            measured["renew a lease"] = sent(lease.renew)
            assert measured == {operation: requests for operation, (requests, _) in fixed.items()}
            assert {operation: example for operation, (_, example) in fixed.items()} == {
                operation: example for operation, (_, _, example) in found.items()
            }
