"""The exact number of values: right up to the limit, null beyond it, and never without a limit that somebody chose."""

import pytest

import tandem
from tandem.views.errors import DefinitionError
from tandem.views.measures import count_distinct
from tests.views.measures.test_collect_set import answered


def test_values_are_counted_once_without_nulls() -> None:
    assert answered(count_distinct("i", limit=3), 3, None, 1, 3, 2) == 3


def test_no_value_is_0_and_not_too_many_values() -> None:
    assert (answered(count_distinct("i", limit=1), None), answered(count_distinct("i", limit=1), 1, 2)) == (0, None)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_the_limit_itself_is_within_it(limit: int) -> None:
    assert answered(count_distinct("i", limit=limit), *range(limit)) == limit
    assert answered(count_distinct("i", limit=limit), *range(limit + 1)) is None


def test_without_a_limit_the_error_says_what_happens_beyond_one() -> None:
    with pytest.raises(DefinitionError, match="count_distinct needs limit=, an integer from 1 to 100000") as caught:
        tandem.count_distinct("i")  # type: ignore[call-arg]
    assert "Beyond the limit the answer is null" in str(caught.value)
    assert "approx_count_distinct has no limit" in str(caught.value)
