"""decoded + quarantined is the number of records so far, by the layer that is further, never by both."""

from collections.abc import Mapping
from dataclasses import replace

from tandem.ledger.log.archive_runs import ArchiveRun, Summary
from tandem.ledger.log.counts import NOTHING, Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.commits import Commit
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import tail
from tandem.serving.status.sources import ArchivePosition, SourcePosition, archived_by, standing
from tests.serving.world import NOON, position

BAD: Mapping[str, int] = {"json": 1}


def records(events: int, **more: int) -> Counts:
    return Counts(events=events, quarantined=BAD, **more)


def tail_of(cut: Position, *ends: Position) -> RealtimeTail:
    starts = [cut, *ends]
    commits = [Commit(a, b, 1, "fold", counts=records(9)) for a, b in zip(starts, ends, strict=False)]
    return tail(commits, cut)


def total(stands: SourcePosition) -> int:
    return stands.decoded + sum(stands.counts.quarantined.values())


def test_right_after_a_feed_the_speed_layer_counts_all_records() -> None:
    stands = standing(NOTHING, tail_of(LOG_START, position(10), position(20)), ArchivePosition())
    assert (total(stands), stands.reached) == (20, position(20))


def test_an_archive_that_lags_behind_changes_nothing() -> None:
    stands = standing(NOTHING, tail_of(LOG_START, position(10), position(20)), ArchivePosition(position(10), records(9)))
    assert total(stands) == 20


def test_an_archive_at_or_past_the_position_gives_the_same_counts() -> None:
    same = standing(NOTHING, tail_of(LOG_START, position(10)), ArchivePosition(position(10), records(9)))
    further = standing(NOTHING, tail_of(LOG_START, position(10)), ArchivePosition(position(30), records(29)))
    assert (total(same), total(further)) == (10, 30)


def test_after_a_recompute_the_batch_counts_below_the_cut() -> None:
    stands = standing(records(19), tail_of(position(20), position(30)), ArchivePosition(position(20), records(19)))
    assert total(stands) == 30


def test_duplicates_are_decoded_records_too() -> None:
    stands = standing(records(15, duplicates=4), tail_of(position(20)), ArchivePosition())
    assert (stands.decoded, stands.counts.duplicates, total(stands)) == (19, 4, 20)


def test_incomparable_positions_do_not_select_the_archive() -> None:
    archive = ArchivePosition(position(5, 100), records(104))
    assert total(standing(NOTHING, tail_of(LOG_START, position(10)), archive)) == 10


def run(number: int, start: Position, end: Position) -> ArchiveRun:
    return ArchiveRun(number, start, end, {}, NOON, "test")


def test_an_archive_run_counts_once_it_and_all_earlier_runs_are_complete() -> None:
    runs = [run(1, LOG_START, position(10)), run(2, position(10), position(20)), run(3, position(20), position(30))]
    first, third = Summary(1, records(9), NOON, NOON), Summary(3, records(9), NOON, NOON)
    assert archived_by(runs, [first, third]) == ArchivePosition(position(10), records(9))
    second = replace(third, run=2)
    assert archived_by(runs, [third, second, first]).end == position(30)
    assert archived_by(runs, [third, second, first]).records == 30
    assert archived_by([], []) == ArchivePosition()
