"""Rule 6: the archive is contiguous and holds no offset twice; each table's progress is its own; gaps have names."""

import re

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import APP_ID, IMPORT, ArchiveLedger, ArchiveProgress, ArchiveRun, NotNext
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.gaps import GapNotAccepted, Gaps, UnknownGap, refuse_unaccepted
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.completeness import accepted_gaps
from tandem.ledger.publish.publications import Publication
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Ranges
from tests.ledger.tiny import AT, SOURCE, at

DECODER = "d1"


def intend(tables: Tables, start: Position, end: Position) -> ArchiveRun:
    return ArchiveLedger(tables, SOURCE).intend(start=start, end=end, by="test", at=AT)


def write(address: str, run: int) -> None:
    """What Spark does: rows and the run's number in one commit."""
    once = CommitProperties(app_transactions=[Transaction(APP_ID, run)])
    write_deltalake(address, pa.table({"run": [run]}), mode="append", commit_properties=once)


def write_all(tables: Tables, run: int) -> None:
    for address in (tables.archive(SOURCE), tables.events(SOURCE, DECODER), tables.quarantine(SOURCE, DECODER)):
        write(address, run)


def finish(tables: Tables, run: int) -> None:
    ArchiveLedger(tables, SOURCE).finish(DECODER, run, counts=Counts(), newest=AT, at=AT)


def test_runs_are_contiguous(tables: Tables) -> None:
    assert intend(tables, LOG_START, at(3, 1)).number == 1
    for start in (LOG_START, at(2, 1), at(4, 1), at(3, 2)):
        with pytest.raises(NotNext, match=re.escape(f"cannot start at {start}: the last one ends at {at(3, 1)}")):
            intend(tables, start, at(9, 9))
    assert intend(tables, at(3, 1), at(3, 4)).number == 2
    assert [(run.start, run.end) for run in ArchiveLedger(tables, SOURCE).runs()] == [(LOG_START, at(3, 1)), (at(3, 1), at(3, 4))]


def test_topics_are_in_the_order_of_their_first_read_then_of_the_source(tables: Tables) -> None:
    ledger = ArchiveLedger(tables, SOURCE)
    assert ledger.generations() == ()
    ledger.name_topics({"second": "z", "first": "m"}, at=AT)
    # Which of them has records first changes nothing.
    one = Position.of({("m", 0): 3})
    intend(tables, LOG_START, one)
    assert ledger.generations() == ("z", "m")
    # Names are those of the first time, and so is the order.
    ledger.name_topics({"third": "a", "first": "m", "other": "z"}, at=AT)
    intend(tables, one, Position.of({("z", 0): 3, ("m", 0): 4, ("a", 0): 1}))
    assert ledger.generations() == ("z", "m", "a")
    assert ledger.topic_names() == {"z": "second", "m": "first", "a": "third"}


@pytest.mark.parametrize("end", [at(3, 1), at(3, 0), at(9, 0)])
def test_a_run_must_advance(tables: Tables, end: Position) -> None:
    intend(tables, LOG_START, at(3, 1))
    with pytest.raises(NotNext, match="must end above its start"):
        intend(tables, at(3, 1), end)


def test_every_source_has_its_own_runs(tables: Tables) -> None:
    intend(tables, LOG_START, at(3, 1))
    assert ArchiveLedger(tables, "other").intend(start=LOG_START, end=at(1), by="test", at=AT).number == 1


def test_progress_is_known_after_a_kill_at_any_point(tables: Tables) -> None:
    """Killed after the intent, or after any of the three writes: exactly the tables that hold the run are told."""
    run = intend(tables, LOG_START, at(3, 1))
    addresses = [tables.archive(SOURCE), tables.events(SOURCE, DECODER), tables.quarantine(SOURCE, DECODER)]
    ledger = ArchiveLedger(tables, SOURCE)
    for written, address in enumerate([*addresses, None]):
        there = ledger.progress(DECODER)
        assert there == ArchiveProgress(*(run.number if place < written else 0 for place in range(3)))
        assert ledger.end(DECODER) == LOG_START
        if address:
            write(address, run.number)
    finish(tables, run.number)
    assert ledger.end(DECODER) == at(3, 1)


def test_the_end_is_where_all_tables_are_complete_and_counted(tables: Tables) -> None:
    intend(tables, LOG_START, at(3, 1))
    intend(tables, at(3, 1), at(5, 5))
    write_all(tables, 1)
    write(tables.archive(SOURCE), 2)
    finish(tables, 1)
    write(tables.events(SOURCE, DECODER), 2)
    write(tables.quarantine(SOURCE, DECODER), 2)
    ledger = ArchiveLedger(tables, SOURCE)
    assert ledger.end(DECODER) == at(3, 1)
    assert ledger.archived() == at(5, 5)
    finish(tables, 2)
    assert ledger.end(DECODER) == at(5, 5)


def test_a_changed_decoder_fills_new_tables_from_the_first_run(tables: Tables) -> None:
    intend(tables, LOG_START, at(3, 1))
    write_all(tables, 1)
    ledger = ArchiveLedger(tables, SOURCE)
    assert ledger.progress("d2") == ArchiveProgress(archive=1, events=0, quarantine=0)
    assert ledger.end("d2") == LOG_START


def test_a_run_is_counted_once_and_only_when_complete(tables: Tables) -> None:
    counts = Counts(events=2, quarantined={"json": 1}, holes=1)
    intend(tables, LOG_START, at(3, 1))
    write(tables.archive(SOURCE), 1)
    ledger = ArchiveLedger(tables, SOURCE)
    with pytest.raises(NotNext, match="run 1 of source 'numbers' is incomplete"):
        ledger.finish(DECODER, 1, counts=counts, newest=AT, at=AT)
    write(tables.events(SOURCE, DECODER), 1)
    write(tables.quarantine(SOURCE, DECODER), 1)
    for _ in range(2):
        ledger.finish(DECODER, 1, counts=counts, newest=AT, at=AT)
    (summary,) = ledger.summaries(DECODER)
    assert (summary.run, summary.counts, summary.newest) == (1, counts, AT)
    assert ledger.summaries("d2") == []


def test_a_later_poll_does_not_move_a_first_offset(tables: Tables) -> None:
    """The log starts further on by now: what it had before is archived or lost, and no look may forget it."""
    ledger = ArchiveLedger(tables, SOURCE)
    ledger.intend(start=LOG_START, end=at(9), firsts={("T", 0): 7, ("T", 1): 0}, by="test", at=AT)
    ledger.intend(start=at(9), end=at(9, 15), firsts={("T", 1): 10}, by="test", at=AT)
    ledger.record_firsts({("T", 0): 8, ("T", 1): 10, ("T", 2): 3}, at=AT)
    ledger.record_firsts({("T", 2): 5, ("U", 0): 0}, at=AT)
    assert ledger.firsts() == {("T", 0): 7, ("T", 1): 0, ("T", 2): 3, ("U", 0): 0}
    # What was imported may begin before anything that was looked at.
    ledger.intend(start=at(9, 15), end=at(9, 15, 20), firsts={("T", 2): 1}, by=IMPORT, at=AT)
    assert ledger.firsts()["T", 2] == 1


def test_a_process_that_looked_too_early_continues_with_the_recorded_offsets(
    tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would else not know the identities of records that were archived and deleted between its looks."""
    ledger = ArchiveLedger(tables, SOURCE)
    assert ledger.record_firsts({("T", 0): 0}, at=AT) == {("T", 0): 0}
    assert ledger.record_firsts({("T", 0): 1, ("T", 1): 4}, at=AT) == {("T", 0): 0, ("T", 1): 4}
    monkeypatch.setattr(ArchiveLedger, "_looked_at", lambda *_: {})
    assert ledger.record_firsts({("T", 0): 2, ("T", 1): 5}, at=AT) == {("T", 0): 0, ("T", 1): 4}


def test_a_gap_is_recorded_once_and_by_name(tables: Tables) -> None:
    lost = Ranges.of({("T", 0): (3, 7)})
    gap = Gaps(tables).record(SOURCE, lost, reason="the log began at 7", at=AT)
    assert Gaps(tables).record(SOURCE, lost, reason="seen again", at=AT) == gap
    other = Gaps(tables).record("other", lost, reason="the log began at 7", at=AT)
    assert Gaps(tables).every() == (gap, other)
    assert Gaps(tables).of(SOURCE) == [gap]


def test_what_lies_in_an_unchecked_run_is_not_accounted_for(tables: Tables) -> None:
    """Until its losses are recorded, an offset of it may be neither archived nor in a gap."""
    ends = (at(3, 1), at(5, 5))
    for run, (start, end) in enumerate(zip((LOG_START, ends[0]), ends, strict=True), 1):
        intend(tables, start, end)
        ledger = ArchiveLedger(tables, SOURCE)
        assert ledger.accounted() == start
        write(tables.archive(SOURCE), run)
        assert (ledger.archived(), ledger.accounted()) == (end, start)
        ledger.check(run, at=AT)
        assert ledger.accounted() == end


def test_a_later_run_that_is_finished_first_moves_no_end(tables: Tables) -> None:
    intend(tables, LOG_START, at(3, 1))
    intend(tables, at(3, 1), at(5, 5))
    write_all(tables, 1)
    write_all(tables, 2)
    finish(tables, 2)
    ledger = ArchiveLedger(tables, SOURCE)
    assert ledger.end(DECODER) == LOG_START
    finish(tables, 1)
    assert ledger.end(DECODER) == at(5, 5)


def test_a_gap_is_refused_unless_accepted_by_name(tables: Tables) -> None:
    gap = Gaps(tables).record(SOURCE, Ranges.of({("T", 0): (3, 7)}), reason="the log began at 7", at=AT)
    with pytest.raises(TandemError, match=r"gap numbers-gap-1 of source 'numbers': 4 offsets are lost \(the log began at 7\)"):
        refuse_unaccepted([gap], ())
    with pytest.raises(UnknownGap, match="unknown gap 'x'; gaps: numbers-gap-1"):
        refuse_unaccepted([gap], ("x",))
    refuse_unaccepted([gap], (gap.name,))


@pytest.mark.parametrize("accepted", [(), ("numbers-gap-1",), ("numbers-gap-2",), ("numbers-gap-1", "numbers-gap-2")])
@pytest.mark.parametrize("before", [(), ("numbers-gap-1",), ("numbers-gap-2", "gone-gap-9")])
def test_each_gap_is_accepted_by_this_run_or_by_one_before(
    tables: Tables, accepted: tuple[str, ...], before: tuple[str, ...]
) -> None:
    parts = [Ranges.of({("T", 0): part}) for part in ((3, 7), (13, 17))]
    found = tuple(Gaps(tables).record(SOURCE, part, reason="deleted", at=AT) for part in parts)
    Gaps(tables).record("other", parts[0], reason="deleted", at=AT)
    state = Publication(2, 1, AT, "test", "recompute", 1, {}, {}, gaps=before)
    if {gap.name for gap in found} <= {*accepted, *before}:
        assert accepted_gaps(tables, state, [SOURCE], accepted) == found
        return
    with pytest.raises(GapNotAccepted):
        accepted_gaps(tables, state, [SOURCE], accepted)
