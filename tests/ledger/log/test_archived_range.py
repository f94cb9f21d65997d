"""The ledger's records of an archived range: its offsets, when it was archived, and the results of its runs."""

from datetime import datetime, timedelta

import pytest

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.archived_range import archived_range
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.views.source.offset_ranges import Ranges
from tests.ledger.log.test_archive_ledger import DECODER, write_all
from tests.ledger.tiny import AT, SOURCE, at


@pytest.fixture
def archived(tables: Tables) -> Tables:
    """Two archive runs, an hour apart: up to (3, 1) with one hole, up to (3, 4) with two records of other sources."""
    for number, (start, end) in enumerate([(LOG_START, at(3, 1)), (at(3, 1), at(3, 4))]):
        ledger = ArchiveLedger(tables, SOURCE)
        ledger.intend(start=start, end=end, firsts={("T", 0): 2}, by="test", at=AT + timedelta(hours=number))
        write_all(tables, number + 1)
        counts = Counts(holes=1) if number == 0 else Counts(others=2)
        ledger.finish(DECODER, number + 1, counts=counts, newest=AT, at=AT)
    return tables


def test_a_position_was_archived_by_the_first_run_that_reaches_it(archived: Tables) -> None:
    """So nothing below it can be newer, whatever its timestamp says."""

    def archived_at(end: Position) -> datetime | None:
        return archived_range(archived, SOURCE, DECODER, LOG_START, end).archived_at

    later = AT + timedelta(hours=1)
    assert [archived_at(end) for end in (at(1), at(3, 1), at(3, 2), at(3, 4))] == [AT, AT, later, later]
    assert archived_at(at(4, 4)) is None


def test_only_runs_that_touch_the_range_count(archived: Tables) -> None:
    def explained(start: Position, end: Position) -> tuple[int, int]:
        found = archived_range(archived, SOURCE, DECODER, start, end)
        return found.holes, found.others

    assert explained(LOG_START, at(3, 1)) == (1, 0)
    assert explained(at(3, 1), at(3, 4)) == (0, 2)
    assert explained(LOG_START, at(3, 2)) == explained(at(2), at(3, 4)) == (1, 2)
    assert archived_range(archived, SOURCE, "other", LOG_START, at(3, 4)).holes == 0


def test_its_offsets_begin_where_the_log_began(archived: Tables) -> None:
    found = archived_range(archived, SOURCE, DECODER, at(0, 1), at(3, 4))
    assert found.covered == Ranges.of({("T", 0): (2, 3), ("T", 1): (1, 4)})
    assert found.before == Ranges.of({("T", 1): (0, 1)})
    assert found.up_to(at(3, 2)).union(found.beyond(at(3, 2))) == found.covered
