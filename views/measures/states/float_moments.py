"""Central moments of doubles, and of pairs of doubles, folded and merged by formulas without cancellation.

A state is a count, the means, and sums of products of the deviations from them. Folding computes the deviations from
the mean in a second pass; merging moves the parts' sums to the common mean, all parts of a group at once.
Formulas: P. Pebay, "Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical
moments", Sandia report SAND2008-6212 (2008), equations 2.1 and 3.1 for two parts, here summed over any number of them.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.measures.measure import Facts, State

Doubles = npt.NDArray[np.float64]
Fold = Callable[[Doubles, npt.NDArray[np.intp], Doubles], Doubles]
"""From rows of values, the group of each, and the number of values of each group to a row of numbers per group."""
Unite = Callable[[Doubles, npt.NDArray[np.intp], int], Doubles]
"""From rows of states' numbers, the group of each, and the number of groups to a row of numbers per group."""

MOMENTS: Final = 5
"""Numbers in the state of one variable: count, mean, and the sums of the deviations' second, third and fourth powers."""

COMOMENTS: Final = 6
"""Numbers in the state of a pair: count, both means, the sums of both squares and of the product of the deviations."""


FLOAT_MOMENTS: Final = Facts(
    merge="some 20 operations on doubles",
    inverse="no: moments are rounded",
    source="Pebay, Formulas for robust, one-pass parallel computation of covariances and arbitrary-order statistical moments, "
    "SAND2008-6212",
    varying=f"{8 * MOMENTS}",
)
FLOAT_COMOMENTS: Final = replace(FLOAT_MOMENTS, varying=f"{8 * COMOMENTS}")


def moments_state() -> State:
    """The state of one input."""
    return _state("moments", 1, MOMENTS, _fold_moments, _unite_moments)


def comoments_state() -> State:
    """The state of two inputs; a pair with a null is ignored."""
    return _state("comoments", 2, COMOMENTS, _fold_comoments, _unite_comoments)


def numbers(column: pa.Array, width: int) -> Doubles:
    """A row of numbers per state; zeros for a null state."""
    return _rows([state if state is not None else bytes(8 * width) for state in column.to_pylist()], width)


def answers(values: Doubles, present: npt.NDArray[np.bool_]) -> pa.Array:
    """Doubles; null where none is present, and where the result is not a double."""
    return arrays.from_numpy(values, pa.float64(), present & np.isfinite(values))


def _fold_moments(values: Doubles, group: npt.NDArray[np.intp], counts: Doubles) -> Doubles:
    total = _adder(group, len(counts))
    mean = _within(total(values[:, 0]) / counts, values[:, 0], group)
    deviation = values[:, 0] - mean[group]
    return np.stack([counts, mean, *(total(deviation**power) for power in (2, 3, 4))], axis=1)


def _unite_moments(parts: Doubles, group: npt.NDArray[np.intp], groups: int) -> Doubles:
    total = _adder(group, groups)
    n, mean, m2, m3, m4 = parts.T
    counts = total(n)
    common = _within(total(n * (mean / counts[group])), mean, group)
    d = mean - common[group]
    return np.stack(
        [
            counts,
            common,
            total(m2 + n * d**2),
            total(m3 + 3 * d * m2 + n * d**3),
            total(m4 + 4 * d * m3 + 6 * d**2 * m2 + n * d**4),
        ],
        axis=1,
    )


def _fold_comoments(values: Doubles, group: npt.NDArray[np.intp], counts: Doubles) -> Doubles:
    total = _adder(group, len(counts))
    means = [_within(total(values[:, column]) / counts, values[:, column], group) for column in (0, 1)]
    x, y = (values[:, column] - means[column][group] for column in (0, 1))
    return np.stack([counts, *means, total(x * x), total(y * y), total(x * y)], axis=1)


def _unite_comoments(parts: Doubles, group: npt.NDArray[np.intp], groups: int) -> Doubles:
    total = _adder(group, groups)
    n, mean_x, mean_y, xx, yy, xy = parts.T
    counts = total(n)
    common_x, common_y = (_within(total(n * (mean / counts[group])), mean, group) for mean in (mean_x, mean_y))
    x, y = mean_x - common_x[group], mean_y - common_y[group]
    sums = (total(xx + n * x * x), total(yy + n * y * y), total(xy + n * x * y))
    return np.stack([counts, common_x, common_y, *sums], axis=1)


def _within(means: Doubles, values: Doubles, group: npt.NDArray[np.intp]) -> Doubles:
    """The means, each within the values of its group, which are neighbours. Rounding alone takes a mean beyond them.

    So values that are all equal have no spread at all, however their sum is rounded and however they are merged.
    """
    if not len(values):
        return means
    begins = np.flatnonzero(np.diff(group, prepend=-1))
    return np.clip(means, np.minimum.reduceat(values, begins), np.maximum.reduceat(values, begins))


def _state(suffix: str, inputs: int, width: int, fold: Fold, unite: Unite) -> State:
    given = " AND ".join(f"{{{number}}} IS NOT NULL" for number in range(inputs))
    values = ", ".join(f"CAST({{{number}}} AS DOUBLE)" for number in range(inputs))
    return State(
        suffix,
        pa.binary(),
        fold=f"flatten(list([{values}]) FILTER ({given}))",
        merge="list({0}) FILTER ({0} IS NOT NULL)",
        build=lambda lists: _folded(lists, inputs, fold),
        unite=lambda lists: _united(lists, width, unite),
    )


def _adder(group: npt.NDArray[np.intp], groups: int) -> Callable[[Doubles], Doubles]:
    """A function that adds up values by group."""
    return lambda values: np.bincount(group, values, groups).astype(np.float64)


def _folded(lists: pa.ListArray, inputs: int, fold: Fold) -> pa.Array:
    lengths = _lengths(lists) // inputs
    some = lengths > 0
    values = arrays.doubles(lists.values).reshape(-1, inputs)
    with np.errstate(over="ignore", invalid="ignore"):
        states = fold(values, np.repeat(np.arange(int(some.sum())), lengths[some]), lengths[some].astype(np.float64))
    return _binaries(states, some)


def _united(lists: pa.ListArray, width: int, unite: Unite) -> pa.Array:
    lengths = _lengths(lists)
    some = lengths > 0
    groups = int(some.sum())
    with np.errstate(over="ignore", invalid="ignore"):
        states = unite(_rows(lists.values.to_pylist(), width), np.repeat(np.arange(groups), lengths[some]), groups)
    return _binaries(states, some)


def _lengths(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    offsets = np.array(lists.offsets.to_pylist(), np.int64)
    return offsets[1:] - offsets[:-1]


def _rows(states: Sequence[bytes], width: int) -> Doubles:
    return np.frombuffer(b"".join(states), "<f8").reshape(-1, width)


def _binaries(states: Doubles, some: npt.NDArray[np.bool_]) -> pa.Array:
    """The states' bytes, little endian; null for a group without values."""
    rows = iter(states.astype("<f8"))
    return arrays.binaries([next(rows).tobytes() if there else None for there in some.tolist()])
