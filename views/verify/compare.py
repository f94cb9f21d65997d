"""Compares two computations of a view over the same events, measure by measure: how many answers differ, and by how much.

Errors of two numbers s and f:

* The absolute error is |s - f|.
* The symmetric percentage error is 2 |s - f| / (|s| + |f|), from 0 to 2, and 0 where both are 0 (Makridakis 1993, Accuracy
  measures: theoretical and practical concerns, International Journal of Forecasting 9, 527-529; here with absolute values in the
  denominator). A missing number counts as 0.
* A value that is not a number has the symmetric error 2 if it differs, and no absolute error.
* A list or a struct has the error of its worst element.

Answers decide whether they differ. Only quantiles are compared by their sketches, because a sketch states an error of the rank.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from heapq import nsmallest
from json import dumps
from math import isfinite
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays, python_values
from tandem.views.bound_view import BoundMeasure
from tandem.views.composite.dated import DatedView, pieces
from tandem.views.kernel.present import arrange, present_arranged
from tandem.views.kernel.rows import written
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, answer_schema, approximations, bind, group_columns

EXAMPLES: Final = 5
FLOAT_TOLERANCE: Final = 1e-9
"""The relative tolerance, by the larger value, for floats that were added up in another order."""

_ROW: Final = "_row"
_SIDES: Final = ("_served", "_found")
_PIECE: Final = 1 << 14
_STATE: Final = "_state_{}"

Far = Callable[[pa.Table, pa.Table], npt.NDArray[np.bool_]]
"""Takes the matched rows of two answers and returns, row by row, whether they differ."""


@dataclass(frozen=True)
class Example:
    """An answer that differs: `row` has its keys and window, both values are as in JSON (tandem.views.kernel.rows).

    `only` names the side that has the row, if the other does not; the other value is then None.
    """

    row: Mapping[str, Any]
    served: Any
    found: Any
    symmetric: float
    only: str | None = None
    absolute: float = 0.0

    @property
    def order(self) -> tuple[float, str]:
        """The worst come first."""
        return -self.symmetric, dumps(self.row, sort_keys=True)


@dataclass(frozen=True)
class MeasureDifference:
    """How the answers of a measure differ.

    * `rows`: all answers; `unequal`: those that are not the same; `differ`: those that differ by more than the tolerance.
    * `largest`, `absolute`: the largest and the sum of the absolute errors; `symmetric`: the sum of the symmetric errors.
    * `furthest`, `differing`: the largest absolute error and the sum of the symmetric errors of the answers that differ.
    * `examples`: the worst of them.

    `plus` adds the differences of disjoint sets of keys.
    """

    measure: str
    rows: int = 0
    unequal: int = 0
    differ: int = 0
    largest: float = 0.0
    absolute: float = 0.0
    symmetric: float = 0.0
    examples: tuple[Example, ...] = ()
    differing: float = 0.0
    furthest: float = 0.0

    @property
    def share(self) -> float:
        """The share of answers that differ, from 0 to 1."""
        return self.differ / self.rows if self.rows else 0.0

    @property
    def mean(self) -> float:
        """The mean absolute error."""
        return self.absolute / self.rows if self.rows else 0.0

    @property
    def apart(self) -> float:
        """The mean symmetric error of the answers that differ, from 0 to 2."""
        return self.differing / self.differ if self.differ else 0.0

    @property
    def smape(self) -> float:
        """The symmetric mean absolute percentage error as a fraction, from 0 to 2."""
        return self.symmetric / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class Pairs:
    """Two answers side by side: rows of the same keys and window, and rows that only one side has.

    `group` has the keys and window of each row. `sides` have equal numbers of rows; a row is null where `there` is false, because
    the side has no such row.
    """

    group: tuple[tuple[pa.Field, pa.Array], ...]
    sides: tuple[pa.Table, pa.Table]
    there: tuple[pa.Array, pa.Array]

    @property
    def both(self) -> pa.Array:
        """Which rows both sides have."""
        return pc.and_(*self.there)

    def matched(self) -> "Pairs":
        """Only those rows."""
        return self.take(pc.indices_nonzero(self.both))

    def take(self, rows: pa.Array) -> "Pairs":
        """Only the rows of these numbers."""
        return Pairs(
            tuple((field, column.take(rows)) for field, column in self.group),
            (self.sides[0].take(rows), self.sides[1].take(rows)),
            (self.there[0].take(rows), self.there[1].take(rows)),
        )

    def places(self) -> list[dict[str, Any]]:
        """The keys and window of each row, as in JSON."""
        columns = [written(column, field) for field, column in self.group]
        names = [field.name for field, _ in self.group]
        return (
            [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]
            if names
            else [{}] * len(self.there[0])
        )

    def unequal(self, measure: str) -> pa.Array:
        """The rows whose values of a measure are not the same."""
        return pc.invert(pc.and_(self.both, _same(*(arrays.whole(side[measure]) for side in self.sides))))


def compare(view: View, served: pa.Table, found: pa.Table) -> tuple[MeasureDifference, ...]:
    """Compare the answers of merged states, measure by measure; a row that only one side has differs in every measure."""
    if isinstance(view, DatedView):
        parts = [part for piece in pieces(view) for part in compare(piece.view, piece.select(served), piece.select(found))]
        return tuple(plus(*(part for part in parts if part.measure == name)) for name in view.measures)
    paired, schema = pairs(group_columns(view), *(answers(view, states) for states in (served, found))), answer_schema(view)
    measures = bind(view).measures
    return tuple(difference(paired, schema.field(one.name), tolerance(view, one.name), far_apart(view, one)) for one in measures)


def pairs(group: Sequence[str], served: pa.Table, found: pa.Table) -> Pairs:
    """The rows of two answers, matched by keys and window."""
    rows = _matched(group, served, found)
    ours, theirs = (answer.take(rows[side]) for answer, side in zip((served, found), _SIDES, strict=True))
    columns = ((found.schema.field(name), pc.coalesce(arrays.whole(ours[name]), arrays.whole(theirs[name]))) for name in group)
    there = tuple(pc.is_valid(arrays.whole(rows[side])) for side in _SIDES)
    return Pairs(tuple(columns), (ours, theirs), (there[0], there[1]))


def difference(paired: Pairs, field: pa.Field, allowed: float, far: Far | None = None) -> MeasureDifference:
    """How a measure differs; `field` is its field in answers, `allowed` its tolerance.

    `far` decides which rows of both sides differ, where the answers alone do not show it.
    """
    total = MeasureDifference(field.name, paired.sides[0].num_rows)
    return reduce(plus, (_measured(piece, field, allowed, far) for piece in _unequal(paired, field.name, far)), total)


def examples(paired: Pairs, field: pa.Field, allowed: float, far: Far | None = None) -> Iterator[Example]:
    """Every answer of a measure that differs, in no order; see `difference`."""
    for piece in _unequal(paired, field.name, far):
        yield from _measured(piece, field, allowed, far, most=None).examples


def _unequal(paired: Pairs, measure: str, far: Far | None) -> Iterator[Pairs]:
    """The rows whose values of a measure are not the same, in pieces, with the columns that `far` needs."""
    unequal = pc.indices_nonzero(paired.unequal(measure))
    ours, theirs = paired.sides
    needed = paired if far is not None else replace(paired, sides=(ours.select([measure]), theirs.select([measure])))
    for start in range(0, len(unequal), _PIECE):
        yield needed.take(unequal.slice(start, _PIECE))


def beyond(paired: Pairs, measure: str, allowed: float, far: Far | None = None) -> pa.Array:
    """The rows of both sides that differ in a measure by more than its tolerance; see `difference`."""
    unequal = paired.unequal(measure)
    if far is not None:
        return pc.and_(unequal, python_values.array(far(*paired.sides).tolist(), pa.bool_()))
    if not allowed:
        return unequal
    places = pc.indices_nonzero(unequal)
    sides = (arrays.whole(side[measure]).take(places).to_pylist() for side in paired.sides)
    there = paired.both.take(places).to_pylist()
    found = [
        not both or any(_apart(*leaf, allowed)[2] for leaf in _leaves(*values))
        for both, *values in zip(there, *sides, strict=True)
    ]
    return pc.is_in(
        arrays.from_numpy(np.arange(len(unequal)), pa.uint64()), value_set=places.filter(python_values.array(found, pa.bool_()))
    )


def plus(*parts: MeasureDifference) -> MeasureDifference:
    """The differences of a measure over disjoint sets of keys as one."""
    examples = (example for part in parts for example in part.examples)
    return MeasureDifference(
        parts[0].measure,
        sum(part.rows for part in parts),
        sum(part.unequal for part in parts),
        sum(part.differ for part in parts),
        max(part.largest for part in parts),
        sum(part.absolute for part in parts),
        sum(part.symmetric for part in parts),
        tuple(nsmallest(EXAMPLES, examples, key=lambda example: example.order)),
        sum(part.differing for part in parts),
        max(part.furthest for part in parts),
    )


def tolerance(view: View, measure: str) -> float:
    """The tolerance of a measure: the relative difference, by the larger answer, up to which two answers are equal.

    * The tolerance that the view declares, if any.
    * Else 0 for an exact measure, the error that the sketch states for an estimate, or FLOAT_TOLERANCE.
    * For a derived measure, the largest tolerance of those that it is derived from.
    * For quantiles, a distance of ranks: twice the error that the sketch states, because both answers are estimates.
    """
    if measure in view.tolerances:
        return float(view.tolerances[measure])
    approximation = approximations(view).get(measure)
    if approximation is None:
        return 0.0
    if approximation.kind == "derived":
        reads = next(one.reads for one in bind(view).measures if one.name == measure)
        return max(tolerance(view, read) for read in reads)
    if approximation.error is None:
        return FLOAT_TOLERANCE
    return 2 * approximation.error if approximation.kind == "kll" else approximation.error


def answers(view: View, states: pa.Table) -> pa.Table:
    """The answers of merged states, and the states that decide how far apart two answers are."""
    return answers_of_rows(view, arrange(view, states))


def answers_of_rows(view: View, arranged: pa.Table) -> pa.Table:
    """The same of the rows of an answer as merged states, before presentation."""
    answers = present_arranged(view, arranged)
    for column in (name for one in bind(view).measures if one.aggregate.distance for name in one.columns):
        answers = answers.append_column(_STATE.format(column), arranged[column])
    return answers


def far_apart(view: View, measure: BoundMeasure) -> Far | None:
    """The function that decides by states which answers of a measure differ, if states decide; it takes rows of `answers`."""
    distance = measure.aggregate.distance
    if distance is None or measure.name in view.tolerances:
        return None
    columns, allowed = [_STATE.format(name) for name in measure.columns], tolerance(view, measure.name)
    return lambda *sides: distance(*([arrays.whole(side[name]) for name in columns] for side in sides)) > allowed


def _matched(group: Sequence[str], served: pa.Table, found: pa.Table) -> pa.Table:
    """The numbers of the rows that have the same keys and window, null where a side has none."""
    numbered = {
        name: table.select(list(group)).append_column(_ROW, arrays.row_numbers(table.num_rows))
        for name, table in zip(_SIDES, (served, found), strict=True)
    }
    ours, theirs = _SIDES
    same = " AND ".join(f"{ours}.{quoted(name)} IS NOT DISTINCT FROM {theirs}.{quoted(name)}" for name in group) or "TRUE"
    return engine.query(
        f"SELECT {ours}.{_ROW} AS {ours}, {theirs}.{_ROW} AS {theirs} FROM {ours} FULL JOIN {theirs} ON {same}", numbered
    )


def _same(served: pa.Array, found: pa.Array) -> pa.Array:
    """Where the values are the same; null is the same as null."""
    if pa.types.is_list(served.type):
        return python_values.array(
            [one == other for one, other in zip(served.to_pylist(), found.to_pylist(), strict=True)], pa.bool_()
        )
    if pa.types.is_struct(served.type):
        fields = [_same(*pair) for pair in zip(served.flatten(), found.flatten(), strict=True)]
        return reduce(pc.and_, fields, pc.equal(pc.is_valid(served), pc.is_valid(found)))
    neither = pc.and_(pc.is_null(served), pc.is_null(found))
    return pc.or_(neither, pc.fill_null(pc.equal(served, found), False))


def _measured(
    unequal: Pairs, field: pa.Field, tolerance: float, far: Far | None, most: int | None = EXAMPLES
) -> MeasureDifference:
    """The sums of the errors of unequal answers; `far` decides which differ, if states decide that.

    The examples are the worst ones, `most` of them, or all in no order.
    """
    sides = [arrays.whole(side[field.name]) for side in unequal.sides]
    beyond = None if far is None else far(*unequal.sides)
    errors, differ, differing, furthest, examples = [], 0, 0.0, 0.0, []
    both = (
        zip(there.to_pylist(), side.to_pylist(), written(side, field), strict=True)
        for there, side in zip(unequal.there, sides, strict=True)
    )
    for number, (row, ours, theirs) in enumerate(zip(unequal.places(), *both, strict=True)):
        (served, value, text), (there, other_value, other_text) = ours, theirs
        absolute, symmetric, apart = errors_of(value, other_value, tolerance)
        errors.append((absolute, symmetric))
        if not (served and there) or (apart if beyond is None else beyond[number]):
            differ += 1
            differing, furthest = differing + symmetric, max(furthest, absolute)
            only = None if served and there else "served" if served else "found"
            examples.append(Example(row, text, other_text, symmetric, only, absolute))
    return MeasureDifference(
        field.name,
        0,
        len(errors),
        differ,
        max((absolute for absolute, _ in errors), default=0.0),
        sum(absolute for absolute, _ in errors),
        sum(symmetric for _, symmetric in errors),
        tuple(examples if most is None else nsmallest(most, examples, key=lambda example: example.order)),
        differing,
        furthest,
    )


def errors_of(served: Any, other: Any, tolerance: float = 0.0) -> tuple[float, float, bool]:
    """The absolute and the symmetric error of two answers, and whether they differ by more than the tolerance."""
    leaves = [_apart(*leaf, tolerance) for leaf in _leaves(served, other)]
    absolute, symmetric = (max((leaf[which] for leaf in leaves), default=0.0) for which in (0, 1))
    return absolute, symmetric, any(far for _, _, far in leaves)


def _leaves(served: Any, found: Any) -> Iterator[tuple[Any, Any]]:
    """The pairs of single values that two answers are made of."""
    if isinstance(served, Mapping) or isinstance(found, Mapping):
        ours, theirs = served or {}, found or {}
        for name in {**ours, **theirs}:
            yield from _leaves(ours.get(name), theirs.get(name))
    elif isinstance(served, list) or isinstance(found, list):
        ours, theirs = served or [], found or []
        for number in range(max(len(ours), len(theirs))):
            yield from _leaves(*(side[number] if number < len(side) else None for side in (ours, theirs)))
        if (served is None) != (found is None) and not ours and not theirs:
            yield served, found
    else:
        yield served, found


def _apart(served: Any, found: Any, tolerance: float) -> tuple[float, float, bool]:
    """The absolute and the symmetric error of two single values, and whether they differ by more than the tolerance."""
    if served == found:
        return 0.0, 0.0, False
    known = [value for value in (served, found) if value is not None]
    if not all(_is_number(value) for value in known):
        return 0.0, 2.0, True
    one, other = (0 if value is None else value for value in (served, found))
    # Halves first: the sum of the largest doubles overflows.
    error, size = float(abs(one - other)), float(abs(one)) / 2 + float(abs(other)) / 2
    beyond = len(known) < 2 or error > tolerance * float(max(abs(one), abs(other)))
    return error, min(2.0, error / size) if size else 0.0, beyond


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool) and isfinite(value)
