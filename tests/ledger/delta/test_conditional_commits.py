"""Rule 3: a commit lands only on the version it was decided on; a new epoch fences; after any error the table decides."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem.ledger.cut_decision import bridge
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unwritable
from tandem.ledger.realtime.commit_files import spans_of, to_rows
from tandem.ledger.realtime_writer import NewerEpoch, NotContiguous
from tests.ledger.tiny import AT, SOURCE, at, claim, commit_each, fold

Append = Callable[[DeltaTable, pa.Table], None]


def ends(tables: Tables) -> list[int]:
    return sorted(span.end.to_json()["T"]["0"] for span in spans_of(tables, 1, SOURCE) if not span.mark)


def test_a_stale_handle_commits_nothing(tables: Tables) -> None:
    commit_each(claim(tables), at(1, 1))
    stale, fresh = (DeltaTable(tables.realtime(1, SOURCE)) for _ in range(2))
    delta_tables.conditional_append(fresh, to_rows(fold(at(1, 1), at(2, 2))))
    with pytest.raises(Conflict):
        delta_tables.conditional_append(stale, to_rows(fold(at(1, 1), at(2, 2))))
    with pytest.raises(Conflict):
        delta_tables.conditional_replace(stale, delta_tables.files(stale), [], at=AT)
    assert ends(tables) == [1, 2]


def test_a_newer_writer_fences_an_older_one(tables: Tables) -> None:
    older = claim(tables)
    commit_each(older, at(1, 1))
    newer = claim(tables)
    assert newer.epoch > older.epoch
    assert newer.end == at(1, 1)
    with pytest.raises(NewerEpoch, match=f"claimed .* with epoch {newer.epoch}; this writer had {older.epoch}"):
        older.append(fold(at(1, 1), at(2, 2), older.epoch))
    assert ends(tables) == [1]
    commit_each(newer, at(2, 2))
    assert ends(tables) == [1, 2]


def test_a_fenced_writer_neither_compacts_nor_expires(tables: Tables) -> None:
    older = claim(tables)
    commit_each(older, *(at(n, n) for n in range(1, 5)))
    claim(tables)
    with pytest.raises(NewerEpoch):
        older.compact(lambda _, partials: partials[0], live=at(0, 0), at=AT, fanout=2)
    with pytest.raises(NewerEpoch):
        older.expire([at(4, 4)], at=AT)


def test_a_commit_of_another_epoch_is_not_this_writers(tables: Tables) -> None:
    writer = claim(tables)
    with pytest.raises(NewerEpoch, match="epoch 7"):
        writer.append(fold(at(0, 0), at(1, 1), epoch=7))


def test_a_commit_that_landed_despite_an_error_is_not_repeated(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = claim(tables)
    with monkeypatch.context() as patch:
        patch.setattr(delta_tables, "conditional_append", _failing_after(delta_tables.conditional_append))
        writer.append(fold(at(0, 0), at(1, 1)))
    assert writer.end == at(1, 1)
    commit_each(writer, at(2, 2))
    assert ends(tables) == [1, 2]


def test_an_equal_range_of_another_writer_is_not_mistaken_for_our_commit(tables: Tables) -> None:
    """The look-up is by epoch and range: the same range by a newer writer must not hide that this one is fenced."""
    older = claim(tables)
    commit_each(claim(tables), at(1, 1))
    with pytest.raises(NewerEpoch):
        older.append(fold(at(0, 0), at(1, 1), older.epoch))


def test_a_bridge_over_the_same_range_is_not_mistaken_for_our_commit(tables: Tables) -> None:
    writer = claim(tables)
    bridge(tables, 1, SOURCE, to=at(1, 1), by="test", at=AT)
    with pytest.raises(NotContiguous):
        writer.append(fold(at(0, 0), at(1, 1), writer.epoch))


def test_claims_at_the_same_moment_get_different_epochs(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    claim(tables)
    real, others = delta_tables.conditional_append, [True]

    def interrupted(handle: DeltaTable, rows: pa.Table, **lease: Any) -> None:
        if others and others.pop():
            claim(tables)
        real(handle, rows, **lease)

    monkeypatch.setattr(delta_tables, "conditional_append", interrupted)
    assert claim(tables).epoch == 3
    epochs = [span.epoch for span in spans_of(tables, 1, SOURCE)]
    assert sorted(epochs) == [1, 2, 3]


def _failing_after(real: Append) -> Append:
    def append(handle: DeltaTable, rows: pa.Table) -> None:
        real(DeltaTable(handle.table_uri), rows)
        raise Unwritable("the connection was lost after the commit")

    return append
