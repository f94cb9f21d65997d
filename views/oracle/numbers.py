"""Statistics of numbers, exactly: over integers and fractions, rounded once. And how far an answer of doubles may be from them.

Doubles that are added up one after another are off by no more than the number of additions times the largest sum times 2^-53
(Higham 2002, Accuracy and Stability of Numerical Algorithms, section 4.2). What is allowed here is four times that, and one
part in 10^9 of the answer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import localcontext
from fractions import Fraction
from typing import Any, Final

_RELATIVE: Final = Fraction(1, 10**9)
_OF_AN_ADDITION: Final = 2.0**-51
_LARGEST: Final = Fraction(1.7976931348623157e308)
_NO_FOURTH_POWER: Final = 1e76
_NOISE: Final = 1e-3
"""Where values differ from their mean by not much more than its rounding, nothing is known of the shape of their spread."""


@dataclass(frozen=True)
class Numbers:
    """Some numbers as integers of which `unit` make one; never empty."""

    parts: tuple[int, ...]
    unit: int

    @classmethod
    def of(cls, values: Sequence[Any]) -> "Numbers":
        """Integers, decimals and doubles, none of which is rounded."""
        ratios = [value.as_integer_ratio() for value in values]
        unit = math.lcm(*(denominator for _, denominator in ratios))
        return cls(tuple(numerator * (unit // denominator) for numerator, denominator in ratios), unit)

    @property
    def sum(self) -> Fraction:
        """What they add up to."""
        return Fraction(sum(self.parts), self.unit)

    @property
    def mean(self) -> Fraction:
        """Their mean."""
        return self.sum / len(self.parts)

    def deviations(self) -> list[int]:
        """How far each is from the mean, in units that are as many times smaller as there are numbers."""
        sum_ = sum(self.parts)
        return [len(self.parts) * part - sum_ for part in self.parts]

    def central(self, power: int) -> Fraction:
        """The mean of the deviations from the mean, to a power."""
        n = len(self.parts)
        return Fraction(sum(deviation**power for deviation in self.deviations()), n * (n * self.unit) ** power)


def added(values: Sequence[Any]) -> Any:
    """The sum, None of nothing; of doubles the double nearest to it, None where that is none."""
    if not values:
        return None
    if isinstance(values[0], float):
        return nearest(Numbers.of(values).sum)
    with localcontext(prec=100):
        return sum(values[1:], values[0])


def averaged(values: Sequence[Any]) -> float | None:
    """The mean."""
    return nearest(Numbers.of(values).mean) if values else None


def spread(values: Sequence[Any], statistic: str, *, population: bool) -> float | None:
    """Variance, stddev, skewness or kurtosis; None where it is not defined, or no double."""
    least = 1 if population or statistic in ("skewness", "kurtosis") else 2
    if len(values) < least:
        return None
    numbers = Numbers.of(values)
    second = numbers.central(2)
    if statistic in ("variance", "stddev"):
        variance = nearest(second if population else second * len(values) / (len(values) - 1))
        return variance if variance is None or statistic == "variance" else math.sqrt(variance)
    if not second:
        return None
    if statistic == "kurtosis":
        return nearest(numbers.central(4) / second**2 - 3)
    third = numbers.central(3)
    return _root(third**2 / second**3, third)


def together(pairs: Sequence[tuple[Any, Any]], statistic: str, *, population: bool) -> float | None:
    """Covariance or correlation; None where it is not defined, or no double."""
    n = len(pairs)
    if n < (1 if population else 2):
        return None
    both = [Numbers.of([pair[side] for pair in pairs]) for side in (0, 1)]
    products = sum(x * y for x, y in zip(*(numbers.deviations() for numbers in both), strict=True))
    mean = Fraction(products, n**3 * both[0].unit * both[1].unit)
    if statistic == "covariance":
        return nearest(mean if population else mean * n / (n - 1))
    spreads = both[0].central(2) * both[1].central(2)
    return _root(mean**2 / spreads, mean) if spreads else None


def nearest(number: Fraction) -> float | None:
    """The double nearest to a number; None beyond the doubles."""
    try:
        return float(number)
    except OverflowError:
        return None


def near_sum(published: float | None, values: Sequence[float], *, of: int = 1) -> bool:
    """Whether a sum of doubles, divided by `of`, is as near as additions in any order leave it."""
    exact = Numbers.of(values).sum / of
    off = Numbers.of([abs(value) for value in values]).sum / of * Fraction(_OF_AN_ADDITION) * len(values)
    allowed = abs(exact) * _RELATIVE + off
    return abs(exact) + allowed > _LARGEST if published is None else abs(Fraction(published) - exact) <= allowed


def near_spread(published: float | None, values: Sequence[float], statistic: str, *, population: bool) -> bool:
    """Whether a statistic of doubles is as near as rounded deviations from a rounded mean leave it."""
    exact = spread(values, statistic, population=population)
    deviation, off = _deviation(values), _off(values)
    if _beyond(values) or not math.isfinite(deviation):
        return True
    if statistic in ("skewness", "kurtosis") and off > _NOISE * deviation:
        return True
    if published is None or exact is None:
        return False
    relative = float(_RELATIVE)
    if statistic == "variance":
        return abs(published - exact) <= relative * exact + 2 * (2 * deviation * off + off**2)
    if statistic == "stddev":
        return abs(published - exact) <= relative * exact + 2 * off
    return abs(published - exact) <= (relative + 100 * off / deviation) * (1 + abs(exact))


def near_together(published: float | None, pairs: Sequence[tuple[Any, Any]], statistic: str, *, population: bool) -> bool:
    """Whether a covariance or correlation of doubles is as near as rounded deviations from rounded means leave it."""
    exact = together(pairs, statistic, population=population)
    sides = [[float(pair[side]) for pair in pairs] for side in (0, 1)]
    (x, y), (off_x, off_y) = (_deviation(side) for side in sides), (_off(side) for side in sides)
    if any(map(_beyond, sides)) or not math.isfinite(x * y):
        return True
    if statistic == "correlation" and (off_x > _NOISE * x or off_y > _NOISE * y):
        return True
    if published is None or exact is None:
        return False
    if statistic == "correlation":
        return abs(published - exact) <= float(_RELATIVE) + 10 * (off_x / x + off_y / y)
    return abs(published - exact) <= float(_RELATIVE) * x * y + 2 * (x * off_y + y * off_x + off_x * off_y)


def _root(squared: Fraction, sign: Fraction) -> float | None:
    number = nearest(squared)
    return None if number is None else math.copysign(math.sqrt(number), sign)


def _deviation(values: Sequence[float]) -> float:
    variance = nearest(Numbers.of(values).central(2)) if values else 0.0
    return math.inf if variance is None else math.sqrt(variance)


def _off(values: Sequence[float]) -> float:
    """How far a mean of doubles may be from theirs."""
    return _OF_AN_ADDITION * len(values) * max(map(abs, values), default=0.0)


def _beyond(values: Sequence[float]) -> bool:
    """Whether powers of them may be no doubles."""
    return max(map(abs, values), default=0.0) > _NO_FOURTH_POWER
