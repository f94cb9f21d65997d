"""Two readers of the same records are compared record by record, whatever pieces they read."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.transfer.archived_records import first_difference
from tandem.views.source.source import RECORDS_SCHEMA
from tests.batch.filed import row

ROWS = [row("T", 0, 3 * n) for n in range(9)]
OTHERS = [row("T", 0, 3 * n + n % 2, seed=1) for n in range(9)]


def pieces(rows: Sequence[object], sizes: Sequence[int]) -> Iterator[pa.Table]:
    table, start = pa.Table.from_pylist(rows, RECORDS_SCHEMA), 0
    for size in sizes:
        yield table.slice(start, size)
        start += size
    yield table.slice(start)


sides = st.tuples(st.integers(0, 9), st.lists(st.integers(0, 4), max_size=4))


@given(sides, sides, st.none() | st.integers(0, 8))
def test_the_first_missing_or_different_record_is_found(
    one: tuple[int, list[int]], other: tuple[int, list[int]], differs: int | None
) -> None:
    left = ROWS[: one[0]]
    right = [OTHERS[n] if n == differs else each for n, each in enumerate(ROWS)][: other[0]]
    found = [n for n in range(9) if left[n : n + 1] != right[n : n + 1]]
    at = [each[found[0]]["offset"] for each in (left, right) if found and found[0] < len(each)]
    assert first_difference(pieces(left, one[1]), pieces(right, other[1])) == (min(at) if found else None)
