"""The rows that are asked for are found whatever row groups they are in, and only row groups that can have them are read."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import FileRange
from tandem.ledger.files.rows_at import holds_all
from tandem.serving.why.row_groups import EventRows, ReadBytes, RowsToFind, Span
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.offset_ranges import Ranges
from tests.serving.why.shop import EIGHT

MINUTE = timedelta(minutes=1)


def rows(folder: Path) -> EventRows:
    """Forty events, one a minute, in row groups of ten; cities in blocks of twenty. The last five are beyond the answer."""
    number = np.arange(40)
    table = pa.table(
        {
            "_topic_id": ["T"] * 40,
            "_partition": pa.array([0] * 40, pa.int32()),
            "_offset": number,
            "at": pa.array([EIGHT + int(n) * MINUTE for n in number], TIMESTAMP),
            "city": ["BERGEN"] * 20 + ["OSLO"] * 20,
            "note": ["long " * 50] * 40,
        }
    )
    pq.write_table(table, folder / "events.parquet", row_group_size=10)
    size = (folder / "events.parquet").stat().st_size
    return EventRows(
        Location(str(folder)),
        [FileRange("events.parquet", 40, ("T", "T"), (0, 0), (0, 40), size)],
        Ranges.of({("T", 0): (0, 35)}),
        "at",
        ReadBytes(of_bytes=size),
    )


@pytest.mark.parametrize(
    ("times", "city", "groups", "offsets"),
    [
        ((EIGHT + 9 * MINUTE, EIGHT + 10 * MINUTE), None, 1, [9]),
        ((EIGHT + 10 * MINUTE, EIGHT + 11 * MINUTE), None, 1, [10]),
        ((EIGHT + 9 * MINUTE, EIGHT + 11 * MINUTE), None, 2, [9, 10]),
        ((None, None), "OSLO", 2, [*range(20, 35)]),
        ((EIGHT, EIGHT + 20 * MINUTE), "OSLO", 0, []),
    ],
)
def test_a_row_group_is_read_if_it_can_have_an_event(
    tmp_path: Path, times: Span, city: str | None, groups: int, offsets: list[int]
) -> None:
    events = rows(tmp_path)

    def wanted(some: pa.Table) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.array(pc.equal(some["city"], city)) if city else np.ones(some.num_rows, dtype=bool)

    what = RowsToFind(["_offset", "note"], ["city"], wanted, times, {"city": city} if city else {})
    assert [offset for some in events.find(what) for offset in some["_offset"].to_pylist()] == offsets
    assert len(events.read.groups) == groups
    assert (events.read.bytes == 0) is (groups == 0)


def test_other_columns_are_read_only_where_a_row_is_wanted(tmp_path: Path) -> None:
    events, nothing = rows(tmp_path), RowsToFind(["note"], ["city"], lambda some: np.zeros(some.num_rows, dtype=bool))
    assert [*events.find(nothing)] == []
    deciding = events.read.bytes
    assert [some.num_rows for some in events.find(RowsToFind(["note"], ["city"], lambda some: some["_offset"].to_numpy() == 3))]
    assert events.read.bytes > 2 * deciding


@pytest.mark.parametrize(("covered", "whole"), [((0, 40), True), ((0, 39), False), ((1, 40), False), ((0, 100), True)])
def test_positions_are_compared_unless_all_rows_of_a_file_are_covered(covered: tuple[int, int], whole: bool) -> None:  # noqa: FBT001
    file = FileRange("events.parquet", 40, ("T", "T"), (0, 0), (0, 40))
    assert holds_all(Ranges.of({("T", 0): covered}), file) is whole
    for other in (replace(file, partitions=(0, 1)), replace(file, topics=("S", "T")), replace(file, topics=None)):
        assert not holds_all(Ranges.of({("T", 0): covered}), other)
