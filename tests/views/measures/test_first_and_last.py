"""Of events of one time the first is the first in the log, in whatever order and pieces they are folded."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import merge, partial, present
from tandem.views.measures import first, first_k, last, last_k
from tandem.views.source.offset_ranges import Ranges
from tandem.views.view import View
from tests.samples import EPOCH, SAMPLES, placed, table

VIEW = View(
    SAMPLES,
    measures={"first": first("i"), "last": last("i"), "firsts": first_k("i", 2), "lasts": last_k("i", 2)},
    name="at_one_time",
)


@given(st.integers(2, 6), st.data())
def test_events_of_one_time_go_by_their_places(number: int, data: st.DataObject) -> None:
    events = placed([{"at": EPOCH, "i": offset} for offset in range(number)])
    mixed, cut = data.draw(st.permutations(events)), data.draw(st.integers(0, number))
    whole = partial(VIEW, table(mixed), Ranges())
    pieces = [partial(VIEW, table(piece), Ranges()) for piece in (mixed[cut:], mixed[:cut])]
    for found in (whole, merge(VIEW, pieces)):
        row = present(VIEW, found).to_pylist()[0]
        assert (row["first"], row["last"]) == (0, number - 1)
        assert (row["firsts"], row["lasts"]) == ([0, 1], [number - 1, number - 2])


@pytest.mark.parametrize("k", [0, -1, 1_001, 1.0, "3", True])
def test_how_many_values_is_an_integer_within_bounds(k: Any) -> None:
    for several in (first_k, last_k):
        with pytest.raises(DefinitionError, match=f"k {k!r} is not an integer from 1 to 1000"):
            several("i", k)
