"""Rule 4: the table is the checkpoint. A writer starts at the table's end, else at the live cut, else at the log's start."""

from shutil import rmtree

from tandem.ledger.cut_decision import bridge
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import LOG_START
from tests.ledger.tiny import AT, SOURCE, at, claim, first, publish_cut


def test_a_writer_starts_at_the_logs_start_before_the_first_publication(tables: Tables) -> None:
    assert claim(tables).end == LOG_START


def test_a_writer_of_an_empty_table_starts_at_the_live_cut(tables: Tables) -> None:
    """Its table may have been lost or moved away: nothing below the cut is wanted again."""
    first(tables)
    bridge(tables, 1, SOURCE, to=at(5, 5), by="test", at=AT)
    publish_cut(tables, at(5, 5))
    _lose_realtime(tables)
    assert claim(tables).end == at(5, 5)


def test_the_cut_is_that_of_the_writers_release(tables: Tables) -> None:
    first(tables)
    for release, cut in ((1, at(5, 5)), (2, at(7, 7)), (3, at(9, 9))):
        bridge(tables, release, SOURCE, to=cut, by="test", at=AT)
        publish_cut(tables, cut, release=release, kind="promote")
    for release in (1, 2, 3):
        _lose_realtime(tables, release)
    assert claim(tables, 2).end == at(7, 7)
    assert claim(tables, 4).end == LOG_START


def _lose_realtime(tables: Tables, release: int = 1) -> None:
    rmtree(tables.realtime(release, SOURCE))
