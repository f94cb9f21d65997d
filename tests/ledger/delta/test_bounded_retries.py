"""A commit that always comes after another writer's ends with a sentence, and not never."""

from collections.abc import Callable
from typing import Any

import pytest
from deltalake import DeltaTable

from tandem.ledger import cut_decision
from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unwritable
from tandem.ledger.delta.retries import commit_again
from tandem.ledger.realtime.commit_files import to_rows
from tests.ledger.tiny import AT, SOURCE, at, claim, fold


def test_a_commit_is_tried_again_as_often_as_the_bound_allows(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "ATTEMPTS", 5)
    claim(tables)
    tried: list[int] = []

    def lose(handle: DeltaTable, times: int) -> int:
        """A commit before which another writer has committed, in the first calls."""
        tried.append(len(tried))
        if len(tried) <= times:
            claim(tables)
        delta_tables.conditional_append(handle, to_rows(fold(at(0, 0), at(1, 1))))
        return len(tried)

    address = tables.realtime(1, SOURCE)
    assert commit_again(DeltaTable(address), lambda handle: lose(handle, 4)) == 5
    tried.clear()
    with pytest.raises(Unwritable, match="other writers committed first 5 times; run the command again"):
        commit_again(DeltaTable(address), lambda handle: lose(handle, 9))
    assert len(tried) == 5


@pytest.mark.parametrize(
    "write",
    [claim, lambda tables: cut_decision.bridge(tables, 1, SOURCE, to=at(1, 1), by="test", at=AT)],
    ids=["a claim of the realtime table", "a cut"],
)
def test_a_writer_that_is_never_first_ends_with_the_sentence(
    tables: Tables, monkeypatch: pytest.MonkeyPatch, write: Callable[[Tables], Any]
) -> None:
    """Without any attempt left, each of them ends before it commits."""
    claim(tables)
    monkeypatch.setattr(retries, "ATTEMPTS", 0)
    with pytest.raises(Unwritable, match="other writers committed first 0 times"):
        write(tables)
