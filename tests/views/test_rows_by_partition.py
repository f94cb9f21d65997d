"""Rows are grouped by partition as plain Python groups them, whatever chunks and dictionaries the columns have."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.arrow.partitions import by_partition

ROWS = st.lists(st.tuples(st.sampled_from(["a", "bb", "c"]), st.integers(0, 300), st.integers(0, 2**40)), max_size=30)


@given(rows=ROWS, size=st.integers(1, 5), encoded=st.booleans())
def test_rows_are_grouped_as_plain_python_groups_them(*, rows: list[tuple[str, int, int]], size: int, encoded: bool) -> None:
    pieces = [pa.array([topic for topic, _, _ in rows[at : at + size]], pa.string()) for at in range(0, len(rows), size)]
    kind = pa.dictionary(pa.int32(), pa.string()) if encoded else pa.string()
    topics = pa.chunked_array([piece.dictionary_encode() if encoded else piece for piece in pieces], kind)
    numbers = pa.chunked_array([pa.array([number for _, number, _ in rows], pa.int32())])
    values = np.array([value for _, _, value in rows], np.int64)
    expected: dict[tuple[str, int], list[int]] = {}
    for topic, number, value in rows:
        expected.setdefault((topic, number), []).append(value)

    grouped = by_partition(topics, numbers)

    summaries = zip(grouped.counts(), grouped.least(values), grouped.most(values), strict=True)
    assert dict(zip(grouped.partitions, summaries, strict=True)) == {
        place: (len(own), min(own), max(own)) for place, own in expected.items()
    }
    rows_of_most = zip(grouped.partitions, grouped.rows_of_most(values), strict=True)
    assert all(rows[row] == (*place, max(expected[place])) for place, row in rows_of_most)
