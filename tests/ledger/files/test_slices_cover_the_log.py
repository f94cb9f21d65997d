"""Slices are the ranges they were cut from, each offset in one, with every file that may hold its rows."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.files.file_ranges import FileRange, within_times
from tandem.ledger.files.splits import cut, even_rows
from tandem.views.source.offset_ranges import EMPTY, Ranges

OFFSETS = st.tuples(st.integers(0, 60), st.integers(1, 40)).map(lambda pair: (pair[0], pair[0] + pair[1]))
PARTITIONS = st.tuples(st.sampled_from(["A", "B"]), st.integers(0, 1))


@st.composite
def files(draw: st.DrawFn) -> list[FileRange]:
    found = []
    for number in range(draw(st.integers(0, 8))):
        (topic, partition), interval = draw(PARTITIONS), draw(OFFSETS)
        known = draw(st.booleans())
        topics, partitions = ((topic, topic), (partition, partition)) if known else (None, None)
        found.append(FileRange(f"f{number}", draw(st.integers(1, 40)), topics, partitions, interval))
    return found


@given(files(), st.dictionaries(PARTITIONS, OFFSETS, max_size=4), st.integers(1, 50))
def test_every_offset_is_in_one_slice_that_has_its_files(held: list[FileRange], wanted: dict, rows: int) -> None:
    ranges = Ranges.of(wanted)

    slices = cut(held, ranges, rows=rows)

    # union refuses an offset that is in two
    assert EMPTY.union(*(part.ranges for part in slices)) == ranges
    for part in slices:
        for partition, intervals in part.ranges.intervals:
            for interval in intervals:
                assert {span.path for span in held if span.overlap(partition, interval)} <= set(part.files)


INSTANTS = st.integers(0, 6).map(lambda minutes: datetime(2026, 11, 1, tzinfo=UTC) + timedelta(minutes=minutes))
BOUNDS = st.tuples(INSTANTS, INSTANTS).map(lambda both: (min(both), max(both)))


@given(st.lists(st.none() | BOUNDS, max_size=6), BOUNDS)
def test_files_that_share_an_instant_with_the_times_are_searched(known: list, wanted: tuple[datetime, datetime]) -> None:
    """Also one that ends, or begins, at the very time of a copy."""
    held = [FileRange(f"f{number}", 1, times=times) for number, times in enumerate(known)]
    minutes = [wanted[0] + timedelta(minutes=n) for n in range((wanted[1] - wanted[0]) // timedelta(minutes=1) + 1)]
    sharing = [one for one in held if one.times is None or any(one.times[0] <= at <= one.times[1] for at in minutes)]
    assert within_times(held, *wanted) == sharing


def test_cuts_fall_between_files() -> None:
    held = [FileRange(f"f{n}", 100, ("A", "A"), (0, 0), (100 * n, 100 * n + 100)) for n in range(10)]

    slices = cut(held, Ranges.of({("A", 0): (0, 1000)}), rows=200)

    assert [part.files for part in slices] == [(f"f{n}", f"f{n + 1}") for n in range(0, 10, 2)]


def test_a_large_file_is_cut_and_small_ones_are_bundled() -> None:
    large = FileRange("large", 1000, ("A", "A"), (0, 0), (0, 1000))
    small = [FileRange(f"s{n}", 10, ("A", "A"), (n, n), (0, 10)) for n in range(1, 5)]

    slices = cut([large, *small], Ranges.of({("A", 0): (0, 1000), **{("A", n): (0, 10) for n in range(1, 5)}}), rows=250)

    assert [part.rows for part in slices] == [250, 250, 250, 290]


@given(st.integers(0, 10**9), st.integers(1, 64), st.integers(1, 1000), st.integers(0, 10**6))
def test_a_slice_has_as_many_rows_as_keep_all_cores_busy(total: int, parallelism: int, least: int, more: int) -> None:
    """Two slices for each core, if that many are neither too small nor too large."""
    rows, most = even_rows(total, parallelism, least=least, most=least + more), least + more
    assert least <= rows <= most
    assert rows == least or total > 2 * parallelism * (rows - 1)
    assert rows == most or total <= 2 * parallelism * rows
