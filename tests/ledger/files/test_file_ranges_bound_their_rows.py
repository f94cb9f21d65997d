"""The bounds of a file hold for its rows: no requested row is in a file that is skipped."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from tempfile import TemporaryDirectory

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tandem.ledger.files.file_ranges import EVENTS, EVERY_OFFSET, FileRange, file_ranges, rows_within, within_times
from tandem.ledger.files.scan import inside
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import INDEX

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
Row = tuple[tuple[str, int], int]
"""A partition and an offset in it."""

minutes = st.integers(0, 6).map(lambda number: BEGIN + timedelta(minutes=number))
partitions = st.tuples(st.sampled_from("STU"), st.integers(0, 2))
intervals = st.tuples(st.integers(0, 7), st.integers(0, 7)).map(lambda ends: (min(ends), max(ends)))


def span_of(rows: Sequence[Row], each: int = 1) -> FileRange:
    """A file of these rows, with bounds as Delta's statistics give them."""
    topics, numbers, offsets = ([topic for (topic, _), _ in rows], [n for (_, n), _ in rows], [offset for _, offset in rows])
    bounds = (min(topics), max(topics)), (min(numbers), max(numbers)), (min(offsets), max(offsets) + 1)
    return FileRange("file", len(rows), *bounds, each=each)


@given(st.lists(st.lists(minutes, min_size=1, max_size=3), max_size=5), minutes, minutes)
def test_a_file_is_read_if_its_times_overlap(files: list[list[datetime]], one: datetime, other: datetime) -> None:
    low, high = min(one, other), max(one, other)
    spans = [FileRange(str(number), len(times), times=(min(times), max(times))) for number, times in enumerate(files)]
    found = within_times([*spans, FileRange("unbounded", 1)], low, high)
    assert found == [
        *(span for span, times in zip(spans, files, strict=True) if not (max(times) < low or min(times) > high)),
        FileRange("unbounded", 1),
    ]
    assert {str(number) for number, times in enumerate(files) if any(low <= time <= high for time in times)} <= {
        span.path for span in found
    }


@given(st.lists(st.tuples(partitions, st.integers(0, 6)), min_size=1, max_size=6, unique=True), partitions, intervals)
def test_a_file_overlaps_a_piece_of_the_log_by_its_offsets_within_the_bounds(
    rows: list[Row], partition: tuple[str, int], interval: tuple[int, int]
) -> None:
    span = span_of(rows)
    wanted = [offset for place, offset in rows if place == partition and interval[0] <= offset < interval[1]]
    overlap = span.overlap(partition, interval)
    assert len(wanted) <= overlap
    apart = not (min(t for (t, _), _ in rows) <= partition[0] <= max(t for (t, _), _ in rows)) or not (
        min(n for (_, n), _ in rows) <= partition[1] <= max(n for (_, n), _ in rows)
    )
    within = set(range(*span.offsets)) & set(range(*interval))
    assert overlap == (0 if apart else len(within))
    blind = FileRange("file", len(rows), None, None, EVERY_OFFSET)
    assert blind.overlap(partition, interval) == interval[1] - interval[0], "unknown bounds leave nothing out"
    assert replace(span, topics=None, partitions=None).overlap(partition, interval) == len(within)


@given(st.integers(0, 5), st.integers(1, 6), st.integers(1, 4), intervals)
def test_rows_within_a_piece_are_those_of_its_offsets_on_average(
    start: int, offsets: int, each: int, interval: tuple[int, int]
) -> None:
    """Every offset of the file has as many rows as any other, so the average is exact."""
    rows = [(("T", 0), start + offset) for offset in range(offsets) for _ in range(each)]
    span = span_of(rows, each)
    pieces = Ranges.of({("T", 0): interval})
    expected = sum(interval[0] <= offset < interval[1] for _, offset in rows)
    assert rows_within([span, span], pieces) == 2 * expected
    assert rows_within([span], Ranges.of({("T", 0): (0, 100)})) == len(rows), "all of it"
    assert rows_within([span], Ranges.of({("T", 1): interval})) == 0
    # Two partitions may have different averages: then a file's own number bounds what is in a piece.
    wide = replace(span, partitions=(0, 1))
    assert rows_within([wide], pieces) == expected
    assert rows_within([replace(wide, rows=1)], pieces) == min(1, expected), "where the log has holes"


@given(st.lists(st.lists(st.tuples(partitions, st.integers(0, 6), minutes), max_size=4), max_size=3), st.integers(0, 2))
@settings(max_examples=10)
def test_bounds_come_from_the_tables_statistics(files: list[list[tuple[tuple[str, int], int, datetime]]], index: int) -> None:
    with TemporaryDirectory() as folder:
        for rows in files:
            columns = {
                "_topic_id": pa.array([topic for (topic, _), _, _ in rows], pa.string()),
                "_partition": pa.array([number for (_, number), _, _ in rows], pa.int32()),
                "_offset": pa.array([offset for _, offset, _ in rows], pa.int64()),
                "at": pa.array([time for _, _, time in rows], pa.timestamp("us", "UTC")),
                INDEX: pa.array([index for _ in rows], pa.int32()),
            }
            write_deltalake(folder, pa.table(columns), mode="append")
        found = file_ranges(DeltaTable(folder), EVENTS, "at") if files else []
    expected = [
        replace(
            span_of([(place, offset) for place, offset, _ in rows], 1 + index),
            times=(min(time for _, _, time in rows), max(time for _, _, time in rows)),
        )
        for rows in files
        if rows
    ]
    without = [replace(span, path="file", size=0) for span in found]
    assert sorted(without, key=repr) == sorted(expected, key=repr)
    assert all(span.size > 0 for span in found)


@example([(("S", 0), 0), (("T", 0), 1)], {}, (0, 0), "")  # rows of two topics
@example([(("S", 0), 0), (("S", 1), 1)], {}, (0, 0), "")  # rows of two partitions
@given(
    st.lists(st.tuples(partitions, st.integers(0, 6)), min_size=1, max_size=2, unique=True),
    st.dictionaries(partitions, intervals.filter(lambda ends: ends[0] < ends[1]), max_size=2),
    st.tuples(st.integers(-1, 1), st.integers(-1, 1)),
    st.sampled_from(["", "", "", "topics", "partitions", "offsets"]),
)
def test_a_row_group_is_read_unfiltered_if_no_row_within_its_bounds_is_left_out(
    rows: list[Row], wanted: dict[tuple[str, int], tuple[int, int]], around: tuple[int, int], unknown: str
) -> None:
    """Bounds that are not known may have rows of any partition and offset."""
    span = span_of(rows)
    start, end = max(0, span.offsets[0] + around[0]), span.offsets[1] + around[1]
    if start < end:
        wanted = {**wanted, rows[0][0]: (start, end)}
    span = replace(span, **({"offsets": EVERY_OFFSET} if unknown == "offsets" else {unknown: None} if unknown else {}))
    alone = span.topics is not None and span.partitions is not None and len({*span.topics}) == len({*span.partitions}) == 1
    start, end = wanted.get(rows[0][0], (0, 0))
    assert inside(span, Ranges.of(wanted)) == (alone and start <= span.offsets[0] and span.offsets[1] <= end)
