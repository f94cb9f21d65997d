"""Rows are found by their keys in the order of the request, whether they are few or DuckDB joins them."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.serving.http.routes import rows as key_lookup
from tandem.serving.http.routes.rows import matched
from tandem.views.measures import count
from tandem.views.view import View
from tests.samples import SAMPLES, share

VIEW = View(SAMPLES, keys={"a": "s", "b": "i"}, measures={"n": count()})
VALUES = {
    pa.string(): ("", "a", "ä", "A"),
    pa.int64(): (0, 1, -1, 2**62),
    pa.float64(): (0.0, -0.0, 1.5, 1.0),
    pa.bool_(): (True, False),
    pa.binary(): (b"", b"\0"),
    pa.date32(): (date(1, 1, 1), date(9999, 12, 31)),
    pa.timestamp("us", "UTC"): (datetime(1, 1, 1, tzinfo=UTC), datetime(2026, 11, 1, 0, 0, 0, 1, tzinfo=UTC)),
    pa.decimal128(38, 2): (Decimal("1.00"), Decimal("-1.00"), Decimal("99999999999999999999.01")),
}


@st.composite
def tables(draw: st.DrawFn) -> tuple[pa.Table, pa.Table]:
    types = draw(st.tuples(*[st.sampled_from(list(VALUES))] * 2))
    values = st.tuples(*(st.none() | st.sampled_from(VALUES[each]) for each in types))
    rows, keys = draw(st.lists(values, max_size=8)), draw(st.lists(values, max_size=8))
    first = draw(st.integers(0, 3))
    made = [pa.table([pa.array([row[n] for row in table], types[n]) for n in (0, 1)], names=["a", "b"]) for table in (rows, keys)]
    return made[0], made[1].append_column("_n", pa.array(range(first, first + len(keys)), pa.int64()))


@share(100)
@given(tables())
def test_few_rows_are_matched_as_many_are(given: tuple[pa.Table, pa.Table]) -> None:
    rows, keys = given
    few = matched(VIEW, rows, keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_lookup, "_FEW", -1)
        many = matched(VIEW, rows, keys)
    assert few.rows.equals(many.rows)
    assert few.absent == many.absent


def test_null_and_repeated_keys_have_their_rows() -> None:
    rows = pa.table({"a": ["x", None, "x"], "b": pa.array([1, None, 1], pa.int64()), "n": [7, 8, 9]})
    keys = pa.table({"a": [None, "x", "y", "x"], "b": pa.array([None, 1, 1, 1], pa.int64()), "_n": [0, 1, 2, 3]})
    found = matched(VIEW, rows, keys)
    assert found.rows["n"].to_pylist() == [8, 7, 9, 7, 9]
    assert found.absent == (2,)
