"""What is published of some keys of a view, held against the plain oracle."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays, python_values
from tandem.views.oracle.answers import Answers, Definition, Group, answers, definitions, derived, left_out, seen
from tandem.views.oracle.counted_events import CountedRow
from tandem.views.oracle.measures import meaning
from tandem.views.verify.compare import Far, MeasureDifference, difference, pairs, plus
from tandem.views.view import View, answer_schema, approximations, group_columns

_GROUP: Final = "_group"


def compare(view: View, published: pa.Table, groups: Mapping[Group, Sequence[CountedRow]]) -> tuple[MeasureDifference, ...]:
    """How published answers differ from what the rows of their keys and windows say, measure by measure (verify/compare.py).

    `published` has the columns of answer_schema(view). An estimate may be off by three times the error that it states, doubles
    by what rounding explains, and a measure for which the view declares a tolerance by that. A derived measure has to be what
    its expression makes of its parts: of the oracle's, but of estimates and sums of doubles of those that are published, which
    are judged by themselves. Measures of the project's own, and what is derived from them, are left out.
    """
    parts = [_differences(view, definition, published, groups) for definition in definitions(view)]
    return tuple(plus(*each) for each in zip(*parts, strict=True))


def _differences(
    view: View, definition: Definition, published: pa.Table, groups: Mapping[Group, Sequence[CountedRow]]
) -> tuple[MeasureDifference, ...]:
    """The differences in the windows of one of the view's definitions, in all measures of the view."""
    columns = group_columns(view)
    groups = {group: rows for group, rows in groups.items() if definition.has(group)}
    shown = published.filter(
        python_values.array([definition.has(tuple(row.values())) for row in published.select(columns).to_pylist()], pa.bool_())
    )
    told = answers(definition.view, groups)
    _follow(definition.view, told, {tuple(row[name] for name in columns): row for row in shown.to_pylist()})
    schema = answer_schema(view)
    without = {*left_out(view), *left_out(definition.view)}
    checked = [name for name in view.measures if name not in without]
    expected = _table(schema, columns, checked, {group: {**dict.fromkeys(checked), **row} for group, row in told.items()})
    paired = pairs(columns, shown.select([*columns, *checked]), expected)
    rows = list(groups.values())
    return tuple(
        difference(paired, schema.field(name), view.tolerances.get(name, 0.0), _far(definition.view, name, rows))
        for name in checked
    )


def _follow(view: View, told: Answers, published: Mapping[Group, Mapping[str, Any]]) -> None:
    """Derive what reads an estimate from the published one, where there is one."""
    estimates = approximations(view)
    both = [group for group in told if group in published]
    parts = [
        {**told[group], **{name: published[group][name] for name in estimates if name in published[group]}} for group in both
    ]
    for name, values in derived(view, parts).items():
        for group, value in zip(both, values, strict=True):
            told[group][name] = value


def _table(schema: pa.Schema, columns: Sequence[str], measures: Sequence[str], told: Answers) -> pa.Table:
    fields = [schema.field(name) for name in (*columns, *measures)]
    keys = [[group[number] for group in told] for number in range(len(columns))]
    values = [*keys, *([answer[name] for answer in told.values()] for name in measures)]
    made = [python_values.array(column, field.type) for column, field in zip(values, fields, strict=True)]
    numbers = arrays.from_numpy(np.arange(len(told)), pa.int64())
    return pa.Table.from_arrays([*made, numbers], schema=pa.schema([*fields, pa.field(_GROUP, pa.int64())]))


def _far(view: View, name: str, rows: Sequence[Sequence[CountedRow]]) -> Far | None:
    if name not in view.measures:
        return None
    told = meaning(view.measures[name], indexed=view.source.max_events_per_record is not None)
    if told is None or name in view.tolerances:
        return None
    known = approximations(view).get(name)
    error = known.error if known is not None and known.error is not None else 0.0

    def near(published: Any, group: int | None) -> bool:
        return group is not None and told.near(published, seen(rows[group], name), error)

    return partial(_apart, name, near)


def _apart(name: str, near: Any, published: pa.Table, found: pa.Table) -> npt.NDArray[np.bool_]:
    values = zip(published[name].to_pylist(), found[_GROUP].to_pylist(), strict=True)
    return np.array([not near(value, group) for value, group in values], dtype=bool)
