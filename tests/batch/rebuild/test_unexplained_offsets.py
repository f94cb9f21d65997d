"""The number of offsets below a cut without event or reject equals the holes and other sources' records of the archive."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tandem.batch.rebuild.account import _newest, refuse_unexplained
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.archived_range import archived_range
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.fetch_checks import Unclosed
from tandem.ledger.log.positions import LOG_START
from tandem.views.instant import microseconds, time_of
from tests.batch.decoded_runs import archived, at, decoded

HOLES, OTHERS = (1, 2, 4), (8, 16, 32)
"""Of three runs, whose ends are 10, 20 and 30."""


@pytest.fixture
def batch(tmp_path: Path) -> Any:
    tables = Tables(str(tmp_path))
    archived(tables, "sales", 10, 20, 30)
    decoded(tables, "sales", "d", [Counts(holes=holes, others=others) for holes, others in zip(HOLES, OTHERS, strict=True)])
    return SimpleNamespace(tables=tables)


def refused(batch: Any, start: int, cut: int, holes: int, others: int) -> bool:
    archived = archived_range(batch.tables, "sales", "d", at(start) if start else LOG_START, at(cut))
    try:
        refuse_unexplained(archived, holes=holes, others=others)
    except Unclosed:
        return True
    return False


@pytest.mark.parametrize(
    ("start", "cut", "runs"), [(0, 30, 0b111), (0, 10, 0b001), (0, 11, 0b011), (10, 20, 0b010), (9, 20, 0b011), (19, 21, 0b110)]
)
def test_runs_that_reach_into_the_range_explain_the_holes_that_they_found(batch: Any, start: int, cut: int, runs: int) -> None:
    """Of each kind: empty ones never stand in for another source's, nor the reverse."""
    holes, others = (sum(one for place, one in enumerate(each) if runs >> place & 1) for each in (HOLES, OTHERS))
    for more_holes in (-holes - 1, -holes, -1, 0, 1):
        for more_others in (-others - 1, -others, -1, 0, 1):
            asked = holes + more_holes, others + more_others
            expected = not 0 <= asked[0] <= holes or not 0 <= asked[1] <= others
            assert refused(batch, start, cut, *asked) == expected, asked


@pytest.mark.parametrize(("cut", "of"), [(10, 0), (11, 1), (20, 1), (30, 2)])
def test_no_event_is_newer_than_the_run_that_archived_it(batch: Any, cut: int, of: int) -> None:
    """A producer's clock that is ahead makes no batch look fresh."""
    archived = archived_range(batch.tables, "sales", "d", LOG_START, at(cut))
    moment = ArchiveLedger(batch.tables, "sales").runs()[of].at
    assert archived.archived_at == moment
    for later in (-1, 0, 1, 10**9):
        assert _newest(archived, [microseconds(moment) - 5, microseconds(moment) + later]) == min(
            moment, time_of(microseconds(moment) + later)
        )
    assert _newest(archived, []) is None
