"""Which windows of `delta` are over: all of a key but the one of its newest value, however few events the key has."""

from itertools import accumulate

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.views.windows.in_order import Delta

keys = st.lists(st.lists(st.none() | st.integers(-3, 3), min_size=1, max_size=6), min_size=1, max_size=4)


@example([[0, 9, 0], [5]])
@example([[5], [0, 9]])
@given(keys)
def test_a_key_is_in_the_window_of_its_last_value(drawn: list[list[int | None]]) -> None:
    runs = pa.table({"first_value": pa.array([value for values in drawn for value in values], pa.int64())})
    bounds = np.array([0, *accumulate(map(len, drawn))])
    numbers, newest = Delta("v", by=2)._number(runs, bounds)
    expected = []
    for values in drawn:
        number, first, own = 0, None, list[int]()
        for value in values:
            if value is not None and first is not None and abs(value - first) >= 2:
                number, first = number + 1, value
            first = value if first is None else first
            own.append(number)
        expected.append(own)
    assert numbers.tolist() == [number for own in expected for number in own]
    assert newest.tolist() == [own[-1] for own in expected]
