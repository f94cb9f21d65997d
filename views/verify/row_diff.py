"""The rows in which the answers of two meanings of a view differ, the worst first.

The order: by the largest symmetric error of a row's measures (tandem.views.verify.compare), from 2 downwards; then by the largest
absolute error, from the largest downwards; then by keys and window as text. A row that one side does not have has the symmetric
error 2, and the largest value of its measures as its absolute error.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from json import dumps
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.kernel.rows import written
from tandem.views.verify.compare import Pairs, errors_of, examples, pairs
from tandem.views.verify.release_diff import SharedMeasures, comparable
from tandem.views.view import View, answer_schema, group_columns

DiffSide = Literal["old", "new"]

_NO_ROW = 2.0
"""The symmetric error of a row that one side does not have."""


@dataclass(frozen=True)
class RowDifference:
    """A row that differs: `row` has its keys and window, as in JSON (tandem.views.kernel.rows).

    `measures` has, of the measures that differ, both values as in JSON; of a row that only one side has, all measures of that
    side, with None for the other.
    """

    row: Mapping[str, Any]
    only: DiffSide | None
    measures: Mapping[str, tuple[Any, Any]] = field(hash=False)
    symmetric: float
    absolute: float

    @property
    def name(self) -> str:
        """The keys and window as text, by which the same row of another comparison is known."""
        return _name(self.row)

    @property
    def order(self) -> tuple[float, float, str]:
        """The worst come first."""
        return -self.symmetric, -self.absolute, self.name


def differing_rows(old: View, new: View, ours: pa.Table, theirs: pa.Table) -> list[RowDifference]:
    """The rows that differ, the worst first, of two tables as compare.answers returns them.

    Empty where keys or kind of window differ: then no row of one side is the same row of the other.
    """
    if not comparable(old, new):
        return []
    paired = pairs(group_columns(new), ours, theirs)
    rows = [*_changes(old, new, paired.matched()), *_of_one_side(old, paired, "old"), *_of_one_side(new, paired, "new")]
    return sorted(rows, key=lambda row: row.order)


def row_names(view: View, answers: pa.Table) -> list[str]:
    """The name of each row of a table of answers."""
    schema, groups = answer_schema(view), group_columns(view)
    columns = [written(arrays.whole(answers[name]), schema.field(name)) for name in groups]
    return [_name(dict(zip(groups, values, strict=True))) for values in zip(*columns, strict=True)] or [
        _name({})
    ] * answers.num_rows


def _name(row: Mapping[str, Any]) -> str:
    return dumps(row, sort_keys=True)


def _changes(old: View, new: View, matched: Pairs) -> Iterator[RowDifference]:
    shared, schema = SharedMeasures.of(old, new), answer_schema(new)
    rows: dict[str, list[tuple[Mapping[str, Any], str, tuple[Any, Any], float, float]]] = {}
    for name, allowed in shared.same_type.items():
        for example in examples(matched, schema.field(name), *allowed):
            there = rows.setdefault(_name(example.row), [])
            there.append((example.row, name, (example.served, example.found), example.symmetric, example.absolute))
    places = matched.places() if shared.other_type else []
    for name in shared.other_type:
        fields = [answer_schema(view).field(name) for view in (old, new)]
        columns = [arrays.whole(side[name]) for side in matched.sides]
        shown = zip(*(written(column, of) for column, of in zip(columns, fields, strict=True)), strict=True)
        plain = zip(*(column.to_pylist() for column in columns), strict=True)
        for place, both, values in zip(places, shown, plain, strict=True):
            absolute, symmetric, _ = errors_of(*values)
            rows.setdefault(_name(place), []).append((place, name, (both[0], both[1]), symmetric, absolute))
    for measures in rows.values():
        both_sides = {name: both for _, name, both, _, _ in measures}
        yield RowDifference(
            measures[0][0], None, both_sides, max(each[3] for each in measures), max(each[4] for each in measures)
        )


def _of_one_side(view: View, paired: Pairs, only: DiffSide) -> Iterator[RowDifference]:
    side = 0 if only == "old" else 1
    alone = paired.take(pc.indices_nonzero(pc.invert(paired.there[1 - side])))
    schema, names = answer_schema(view), [*view.measures]
    columns = [arrays.whole(alone.sides[side][name]) for name in names]
    shown = zip(*(written(column, schema.field(name)) for name, column in zip(names, columns, strict=True)), strict=True)
    plain = zip(*(column.to_pylist() for column in columns), strict=True)
    for row, texts, values in zip(alone.places(), shown, plain, strict=True):
        absolute = max((errors_of(value, None)[0] for value in values), default=0.0)
        both = {name: (text, None) if only == "old" else (None, text) for name, text in zip(names, texts, strict=True)}
        yield RowDifference(row, only, both, _NO_ROW, absolute)
