"""What is published of some keys of a view, held against the plain oracle."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays, python_values
from tandem.views.oracle.answers import Answers, Group, answers, derived, left_out, seen
from tandem.views.oracle.counted_events import CountedRow
from tandem.views.oracle.measures import meaning
from tandem.views.verify.compare import Far, MeasureDifference, difference, pairs
from tandem.views.view import View, answer_schema, approximations, group_columns

_GROUP: Final = "_group"


def compare(view: View, published: pa.Table, groups: Mapping[Group, Sequence[CountedRow]]) -> tuple[MeasureDifference, ...]:
    """How published answers differ from what the rows of their keys and windows say, measure by measure (verify/compare.py).

    `published` has the columns of answer_schema(view). An estimate may be off by three times the error that it states, doubles
    by what rounding explains, and a measure for which the view declares a tolerance by that. A derived measure has to be what
    its expression makes of its parts: of the oracle's, but of estimates and sums of doubles of those that are published, which
    are judged by themselves. Measures of the project's own, and what is derived from them, are left out.
    """
    columns = group_columns(view)
    told = answers(view, groups)
    _follow(view, told, {tuple(row[name] for name in columns): row for row in published.to_pylist()})
    schema = answer_schema(view)
    without = left_out(view)
    checked = [name for name in view.measures if name not in without]
    found = _table(schema, columns, checked, told)
    paired = pairs(columns, published.select([*columns, *checked]), found)
    rows = list(groups.values())
    return tuple(
        difference(paired, schema.field(name), view.tolerances.get(name, 0.0), _far(view, name, rows)) for name in checked
    )


def _follow(view: View, told: Answers, published: Mapping[Group, Mapping[str, Any]]) -> None:
    """Derive what reads an estimate from the published one, where there is one."""
    estimates = approximations(view)
    both = [group for group in told if group in published]
    parts = [{**told[group], **{name: published[group][name] for name in estimates}} for group in both]
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
