"""Rule 9: realtime rows stay while a retained publication needs them, and files stay for running reads."""

import os
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tandem.ledger import realtime_writer
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import files, open_table
from tandem.ledger.realtime import commit_files
from tandem.ledger.realtime.commit_files import read_commit, spans_of
from tandem.ledger.realtime.tiling import chain
from tests.ledger.tiny import AT, SOURCE, at, claim, commit_each, decode, merge, partial

NINE = [at(n, n) for n in range(1, 10)]


def test_a_cut_inside_a_commit_keeps_it(tables: Tables) -> None:
    writer = claim(tables)
    commit_each(writer, at(2, 2), at(4, 4))
    assert writer.expire([at(3, 3)], at=AT) == 2
    assert chain(spans_of(tables, 1, SOURCE), at(2, 2)).end == at(4, 4)


def test_a_running_read_survives_compaction_and_expiry(tables: Tables) -> None:
    writer = claim(tables)
    commit_each(writer, *NINE)
    handle = open_table(tables, tables.realtime(1, SOURCE))
    assert handle is not None
    before = list(files(handle))
    writer.compact(merge, live=at(0, 0), at=AT, fanout=3)
    writer.expire([at(9, 9)], at=AT + timedelta(seconds=1))
    folds = [commit for commit in (read_commit(handle, path) for path in before) if not commit.mark]
    assert decode([data for commit in folds for data in commit.partials.values()]) == partial(at(0, 0), at(9, 9))


def test_the_table_stays_small_on_disk(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old log entries go once a checkpoint that is old as well sums them up, old data files with them, by the writer's hand."""
    monkeypatch.setattr(realtime_writer, "_CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(
        commit_files, "SETTINGS", {**commit_files.SETTINGS, "delta.deletedFileRetentionDuration": "interval 0 seconds"}
    )
    log = Path(tables.realtime(1, SOURCE)) / "_delta_log"
    writer, yesterday = claim(tables), time.time() - 86400
    for number in range(1, 31):
        commit_each(writer, at(number, number))
        writer.compact(merge, live=at(0, 0), at=AT, fanout=3)
        for entry in (*log.iterdir(), *log.parent.glob("*.parquet")):
            os.utime(entry, (yesterday, yesterday))
    assert len(list(log.glob("*.json"))) < 20
    assert len(list(log.parent.glob("*.parquet"))) < 20
    found = chain(spans_of(tables, 1, SOURCE), at(0, 0))
    assert (found.end, found.problem) == (at(30, 30), None)
