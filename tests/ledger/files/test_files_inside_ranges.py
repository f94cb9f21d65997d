"""A file counts by its number of rows only if all of them are certainly in the ranges."""

from hypothesis import example, given
from hypothesis import strategies as st

from tandem.ledger.files.file_ranges import FileRange
from tandem.ledger.files.scan import inside
from tandem.views.source.offset_ranges import Ranges

Place = tuple[str, int, int]

places = st.tuples(st.sampled_from("AB"), st.integers(0, 1), st.integers(0, 6))
intervals = st.tuples(st.integers(0, 6), st.integers(1, 6)).map(lambda each: (each[0], each[0] + each[1]))
covered = st.dictionaries(st.tuples(st.sampled_from("AB"), st.integers(0, 1)), intervals, max_size=4).map(Ranges.of)


@example([("A", 0, 1), ("B", 0, 2)], Ranges.of({("A", 0): (0, 6)}))
@example([("A", 0, 1), ("A", 1, 2)], Ranges.of({("A", 0): (0, 6)}))
@example([("A", 0, 0), ("A", 0, 5)], Ranges.of({("A", 0): (0, 6)}))
@example([("A", 0, 0), ("A", 0, 6)], Ranges.of({("A", 0): (0, 6)}))
@given(st.lists(places, min_size=1, max_size=4), covered)
def test_all_rows_of_a_file_inside_are_of_one_partition_and_interval(rows: list[Place], ranges: Ranges) -> None:
    topics, partitions, offsets = (sorted(each) for each in zip(*rows, strict=True))
    bounds = (offsets[0], offsets[-1] + 1)
    span = FileRange("file", len(rows), (topics[0], topics[-1]), (partitions[0], partitions[-1]), bounds)
    within = dict(ranges.intervals).get(rows[0][:2], ())
    alone = len({row[:2] for row in rows}) == 1
    assert inside(span, ranges) == (alone and any(start <= bounds[0] and bounds[1] <= end for start, end in within))
    assert not inside(FileRange("file", len(rows), None, span.partitions, bounds), ranges)
    assert not inside(FileRange("file", len(rows), span.topics, None, bounds), ranges)
