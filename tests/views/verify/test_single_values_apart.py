"""How far two answers are apart does not depend on which of them was served, nor on the sign of both."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from tandem.views.verify.compare import _apart

numbers = st.one_of(
    st.integers(-200, 200),
    st.floats(-1e9, 1e9),
    st.sampled_from([1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 0.0, -0.0]),
    st.decimals(-100, 100, places=2),
)


@given(numbers, numbers, st.sampled_from([0.0, 2.0**-30, 2.0**-7, 0.25]))
@example(100, 101, 0.00995)
@example(128, 127, 2.0**-7)
def test_the_error_is_the_same_from_either_side(one: Any, other: Any, tolerance: float) -> None:
    if isinstance(one, Decimal) != isinstance(other, Decimal):
        one, other = float(one), float(other)
    found = _apart(one, other, tolerance)
    assert found == _apart(other, one, tolerance) == _apart(-one, -other, tolerance)
    error, symmetric, beyond = found
    exact, largest = abs(Fraction(one) - Fraction(other)), max(abs(Fraction(one)), abs(Fraction(other)))
    if exact <= Fraction(1.7976931348623157e308):
        assert error == float(exact) or abs(error - float(exact)) <= float(largest) * 2**-52
    assert 0 <= symmetric <= 2
    assert (symmetric == 0) == (one == other) or float(exact) / max(float(largest), 5e-324) < 1e-300
    if abs(exact - Fraction(tolerance) * largest) > largest * Fraction(1, 2**50):
        assert beyond == (exact > Fraction(tolerance) * largest)


def test_what_differs_by_exactly_the_tolerance_is_not_beyond_it() -> None:
    assert _apart(128, 127, 2.0**-7) == (1.0, 1 / 127.5, False)
    assert _apart(128, 126, 2.0**-7)[2]


@given(st.one_of(st.none(), st.booleans(), st.text(max_size=1), numbers))
def test_a_value_that_is_there_on_one_side_alone_is_beyond_any_tolerance(value: Any) -> None:
    assert _apart(value, value, 0.0) == (0.0, 0.0, False)
    if value is not None:
        assert _apart(value, None, 1e9)[2]
        assert _apart(None, value, 1e9)[2]
