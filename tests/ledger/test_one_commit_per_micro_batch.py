"""Rule 2: a micro-batch is one file and one version, with a row for every view; it starts where the table ends."""

import re
from datetime import timedelta

import pytest
from deltalake import DeltaTable

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import files, read_file
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import Position
from tandem.ledger.realtime.commit_files import read_commit
from tandem.ledger.realtime.commits import Commit, Span, TableEnds
from tandem.ledger.realtime_writer import NotContiguous
from tandem.views.errors import TandemError
from tandem.views.source.watermark import Newest
from tests.ledger.tiny import AT, SOURCE, at, claim, fold

FULL = Commit(
    at(0, 0),
    at(3, 0),
    1,
    "fold",
    counts=Counts(events=1, quarantined={"json": 2}, holes=0, late=1, duplicates=0, conflicts=0),
    rejected={"a": {"overflow": 1}},
    maxima={("T", 0): Newest(1_700_000_000_000_000, 1_700_000_000_000_001)},
    newest=AT + timedelta(microseconds=1),
    watermark=1_700_000_000_000_000,
    after_final={"a": 2},
    looked_up={"prices": TableEnds(at(1, 2), at(1, 3), 7)},
    partials={"a": b"\x00\xff", "b": b"", "c": b"x" * 5000},
    at=AT,
    by="test",
)


def table(tables: Tables) -> DeltaTable:
    return DeltaTable(tables.realtime(1, SOURCE))


def test_all_views_of_a_micro_batch_are_one_version_and_one_file(tables: Tables) -> None:
    writer = claim(tables)
    before = table(tables)
    writer.append(FULL)
    after = table(tables)
    assert after.version() == before.version() + 1
    (path,) = set(files(after)) - set(files(before))
    rows = read_file(after, path)
    assert rows["fingerprint"].to_pylist() == ["a", "b", "c"]
    assert len(set(zip(rows["start_position"].to_pylist(), rows["end_position"].to_pylist(), strict=True))) == 1
    assert read_commit(after, path) == FULL


def test_a_commit_must_start_where_the_table_ends(tables: Tables) -> None:
    writer = claim(tables)
    writer.append(fold(at(0, 0), at(3, 2)))
    for start in (at(2, 2), at(4, 2), at(3, 3)):
        with pytest.raises(NotContiguous, match=re.escape(f"from {start} cannot follow")) as raised:
            writer.append(fold(start, at(9, 9)))
        assert raised.value.end == at(3, 2)
        assert "ends at {T/0: 3, T/1: 2}" in str(raised.value)
    writer.append(fold(at(3, 2), at(9, 9)))


@pytest.mark.parametrize("end", [at(3, 2), at(2, 9), at(0, 0)])
def test_a_micro_batch_must_advance(end: Position) -> None:
    with pytest.raises(TandemError, match="must end above its start"):
        fold(at(3, 2), end)


def test_a_mark_must_not_advance() -> None:
    with pytest.raises(TandemError, match="must end where it starts"):
        Span(at(0, 0), at(1, 0), 1, "epoch")
    with pytest.raises(TandemError, match="must end where it starts"):
        Span(at(0, 5), at(1, 0), 1, "cut")


def test_any_delta_reader_opens_the_table(tables: Tables) -> None:
    claim(tables).append(FULL)
    protocol = table(tables).protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)
