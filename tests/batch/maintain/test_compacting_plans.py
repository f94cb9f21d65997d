"""Compaction rewrites whole files, once, in the order of the log, and never across a file that stays."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.maintain.compact import plan
from tandem.ledger.files.file_ranges import FileRange
from tandem.ledger.log.positions import Position
from tandem.views.source.offset_ranges import EMPTY

SIZES = st.sampled_from([1, 10, 49, 50, 100])
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
PLACES = (("A", 0), ("A", 1))


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[FileRange], Position]:
    """Runs of an archive, each with a file for each partition or one for both; and the log's end."""
    found: list[FileRange] = []
    at = 0
    for number in range(draw(st.integers(0, 12))):
        to = at + draw(st.integers(1, 9))
        mixed = draw(st.booleans())
        times = NOON + timedelta(hours=at), NOON + timedelta(hours=to)
        found += [
            FileRange(
                f"{number}{partitions}",
                (to - at) << mixed,
                ("A", "A"),
                partitions,
                (at, to),
                draw(SIZES),
                draw(st.sampled_from((times, None))),
            )
            for partitions in ([(0, 1)] if mixed else [(0, 0), (1, 1)])
        ]
        at = to
    return draw(st.permutations(found)), Position.of(dict.fromkeys(PLACES, at))


@given(tables(), st.sampled_from((timedelta.max, timedelta(hours=5), timedelta(hours=20))))
def test_every_row_of_the_old_files_is_in_one_new_file(table: tuple[list[FileRange], Position], span: timedelta) -> None:
    files, end = table
    found = plan(files, end, file_bytes=100, span=span)
    by_path = {file.path: file.times or () for file in files}
    for part in found.slices:
        times = [time for path in part.files for time in by_path[path]]
        assert len(part.files) == 1 or not times or max(times) - min(times) <= span
    old = [file for file in files if file.path in found.old]
    assert all(2 * file.size < 100 for file in old)
    covered = EMPTY.union(*(part.ranges for part in found.slices))  # union refuses an offset that is in two
    for partition in end:
        spans = [file for file in files if file.overlap(partition, (0, end[partition]))]
        for part in found.slices:
            for interval in dict(part.ranges.intervals).get(partition, ()):
                assert {file.path for file in spans if file.overlap(partition, interval)} == set(part.files)
                assert set(part.files) <= found.old
        within = dict(covered.intervals).get(partition, ())
        assert sum(to - start for start, to in within) == sum(to - start for start, to in (f.offsets for f in spans if f in old))


@given(tables())
def test_a_plan_reduces_the_number_of_files_or_is_empty(table: tuple[list[FileRange], Position]) -> None:
    found = plan(*table, file_bytes=100)
    assert (not found.old and not found.slices) or len(found.slices) < len(found.old)
    for part in found.slices:
        assert len(part.ranges.intervals) == 1


def test_large_files_stay_and_separate_their_neighbours() -> None:
    files = [
        FileRange(str(n), 10, ("A", "A"), (0, 0), (10 * n, 10 * n + 10), size)
        for n, size in enumerate((1, 1, 90, 1, 1, 1, 50, 1))
    ]
    found = plan(files, Position.of({("A", 0): 80}), file_bytes=100)
    assert [part.files for part in found.slices] == [("0", "1"), ("3", "4", "5")]


def test_new_files_have_about_the_configured_size() -> None:
    files = [FileRange(str(n), 10, ("A", "A"), (0, 0), (10 * n, 10 * n + 10), 20) for n in range(20)]
    found = plan(files, Position.of({("A", 0): 200}), file_bytes=100)
    assert [len(part.files) for part in found.slices] == [5, 5, 5, 5]
