"""The chunks of an answer, one after the other, are its rows in the requested order, however its rows come."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.http.answer_cache import chunks
from tandem.serving.http.answer_cache.chunks import chunk, in_order
from tandem.views.kernel.rows import ordered
from tandem.views.measures.count import count
from tandem.views.view import View, answer_schema
from tandem.views.windows import all_time
from tests.serving.read.test_selection_names_whole_states import readings

VIEW = View(source=readings, keys={"site": "site", "level": "level"}, window=all_time(), measures={"n": count()}, name="v")
rows = st.dictionaries(
    st.tuples(st.none() | st.text("ab", max_size=2), st.none() | st.integers(0, 2)), st.integers(0, 2), max_size=12
)


@given(rows, st.integers(1, 4), st.integers(1, 4), st.sampled_from([(), (("n", False),), (("site", False), ("n", True))]))
def test_chunks_are_the_whole_answer(there: dict[Any, int], size: int, pieces: int, order: chunks.Order) -> None:
    table = pa.Table.from_pylist(
        [{"site": site, "level": level, "n": n} for (site, level), n in there.items()], answer_schema(VIEW)
    )
    expected, found, boundary = in_order(order, ordered(VIEW, table)).to_pylist(), list[dict[str, Any]](), None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_ROWS", size)
        while len(found) < len(expected):
            kept = table.slice(0, 0)
            for start in range(0, table.num_rows, pieces):
                kept = chunk(VIEW, order, boundary, pa.concat_tables([kept, table.slice(start, pieces)]))
            assert 0 < kept.num_rows <= size
            found += kept.to_pylist()
            boundary = kept.slice(kept.num_rows - 1)
    assert found == expected
