"""What tasks return: a duplicate changes nothing but how many there were, and the parts of a micro-batch add up to its range."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.within_task import SCHEMA
from tandem.speed.micro_batch.fold import RangeMismatch, fold_shares
from tandem.speed.micro_batch.task import Share, Task, share_of
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.instant import microseconds, time_of
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA
from tandem.views.source.watermark import Newest
from tests.speed.sales import START, project_files, sale

TASK = Task(project_files(), "sales", {"per_minute": "f1", "per_shop": "f2"})
COLUMNS = ("topic_id", "partition", "offset", "timestamp", "timestamp_type", "value")
NOTHING = Share([], 0, {}, 0, 0, 0, 0, 0, {}, [], None, {}, {}, to_ipc(SCHEMA.empty_table()))


def records(*rows: tuple[int, bytes]) -> pa.Table:
    """Records of one partition at these offsets, which are the seconds of their timestamps too."""
    schema = pa.schema([RECORDS_SCHEMA.field(name) for name in COLUMNS])
    places = ({"topic_id": "T", "partition": 0, "offset": at, "timestamp": START + timedelta(seconds=at)} for at, _ in rows)
    return pa.Table.from_pylist([{**place, "value": value} for place, (_, value) in zip(places, rows, strict=True)], schema)


sales = st.tuples(st.integers(0, 5), st.sampled_from([0, 30, 90, 400, 5000]))


@given(st.lists(sales, min_size=1, max_size=12), st.none() | st.integers(0, 5000))
def test_a_duplicate_changes_only_the_count_of_duplicates(log: Sequence[tuple[int, int]], watermark: int | None) -> None:
    """Neither labels nor maxima nor the newest time: the first event of an identity has them all."""
    reached = None if watermark is None else microseconds(START + timedelta(seconds=watermark))
    task = replace(TASK, watermark=reached, maxima={("T", 0): Newest(microseconds(START), microseconds(START))})
    rows = [(at, sale(number, seconds=seconds)) for at, (number, seconds) in enumerate(log)]
    first = {place: at for at, place in reversed(list(enumerate(log)))}
    with_duplicates, without = (share_of(task, records(*some)) for some in (rows, [rows[at] for at in sorted(first.values())]))
    assert (with_duplicates.duplicates, without.duplicates) == (len(log) - len(first), 0)
    for name in ("events", "quarantined", "late", "after_final", "maxima", "newest", "rejected"):
        assert getattr(with_duplicates, name) == getattr(without, name), name
    for one, other in zip(with_duplicates.partials.values(), without.partials.values(), strict=True):
        assert sorted(from_ipc(one).to_pylist(), key=str) == sorted(from_ipc(other).to_pylist(), key=str)


reads = st.tuples(st.integers(0, 9), st.integers(0, 4), st.none() | st.integers(0, 9 * 10**6))


@given(st.lists(reads, max_size=4), st.integers(1, 3), st.integers(5, 9))
def test_records_outside_the_planned_range_are_refused(parts: list[tuple[int, int, int | None]], start: int, end: int) -> None:
    """From its first offset, included, to its end, excluded; without, the newest time of any share is the micro-batch's."""
    shares = [
        msgspec.structs.replace(NOTHING, records=[(("T", 0), 1, low, low + more)], newest=newest) for low, more, newest in parts
    ]
    covered = Ranges.of({("T", 0): (start, end)})
    torn = len(parts) > covered.length or any(not start <= low <= low + more < end for low, more, _ in parts)

    def run(task: Task) -> list[Share]:
        assert not task.drops
        return shares

    if torn:
        with pytest.raises(RangeMismatch):
            fold_shares(run, TASK, {}, covered, DedupWindow(0))
        return
    folded = fold_shares(run, TASK, {}, covered, DedupWindow(0))
    times = [newest for _, _, newest in parts if newest is not None]
    assert folded.newest == (time_of(max(times)) if times else None)
    assert folded.counts.holes == covered.length - len(parts)
