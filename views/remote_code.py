"""Windows and measures of a project, whose code another process runs.

| side | has |
| --- | --- |
| the view, in the process that answers | a substitute for the class: `OutsideMeasure`, `OutsideWindow` |
| the process with the class | the functions that it runs: `merged`, `presented`, `grouped` |

Requests are about one column. So a table travels as one value: a list of structs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import Aggregate, Approximation, Measure, State
from tandem.views.source.source import Source
from tandem.views.source.value_types import Kind, ValueType
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, bind
from tandem.views.windows.placement import COMPLETE, Placement, Steps
from tandem.views.windows.step import Step

STEPS: Final = ("merge", "settle", "arrange")
_ROWS: Final = pa.field("_rows", pa.list_(pa.int64()))
_ROW: Final = "_row"
_GROUP: Final = "_group"
_VALUE: Final = "_value"
_TABLE: Final = "_table"


@dataclass(frozen=True)
class Call:
    """A request to the process with a project's code: a method, and the part of a view.

    | method | part | column | result |
    | --- | --- | --- | --- |
    | merge | a measure | lists of one of its states, the one of this number | a state of each |
    | present | a measure | structs of its states, or its only state | an answer of each |
    | group | a step of the window | one list of structs: rows | one list of structs: groups, with the numbers of their rows |
    """

    view: str
    part: str
    method: Literal["merge", "present", "group"]
    state: int = 0


Run = Callable[[Call, pa.Array, pa.DataType], pa.Array]
"""Runs code of a project for a column; returns an array of the same length, of the given type."""


@dataclass(frozen=True)
class OutsideMeasure:
    """A measure of a project's class; `view` and `name` are the place of its definition."""

    view: str
    name: str
    text: str
    inputs: tuple[str, ...]
    states: tuple[tuple[str, pa.DataType], ...]
    answer: pa.DataType
    kind: Kind | Literal["list", "struct"]
    approximate: Approximation | None
    run: Run = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def filtered(self, condition: str) -> Measure:
        """The measure over the events for which a condition is true."""
        return Filtered(self, condition)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:  # noqa: ARG002  the class has said what it keeps
        """The aggregate of the class, which cannot fold events. Merging and presenting raise what `run` raises."""
        states = tuple(self._state(number, *one) for number, one in enumerate(self.states))
        return Aggregate(states, self.answer, self.kind, self._present, self.approximate)

    def _state(self, number: int, suffix: str, arrow: pa.DataType) -> State:
        call = Call(self.view, self.name, "merge", number)
        listed = pa.list_(arrow)
        return State(suffix, arrow, "", "list({0})", unite=lambda lists: self.run(call, lists.cast(listed), arrow))

    def _present(self, columns: Sequence[pa.Array]) -> pa.Array:
        fields = [pa.field(suffix, arrow) for suffix, arrow in self.states]
        column = columns[0] if len(fields) == 1 else pa.StructArray.from_arrays(columns, fields=fields)
        return self.run(Call(self.view, self.name, "present"), column, self.answer)


def merged(view: View, call: Call, lists: pa.Array) -> pa.Array:
    """The state of each list of states, none of them empty."""
    state = _aggregate(view, call.part).states[call.state]
    rows = pa.table({_GROUP: pc.list_parent_indices(lists), _VALUE: lists.flatten()})
    united = state.merge.format(quoted(_VALUE))
    sql = f"SELECT {united} AS {quoted(_VALUE)} FROM {_TABLE} GROUP BY {quoted(_GROUP)} ORDER BY {quoted(_GROUP)}"
    column = arrays.whole(engine.query(sql, {_TABLE: rows})[_VALUE])
    return (column if state.unite is None else state.unite(column)).cast(state.type)


def presented(view: View, call: Call, column: pa.Array) -> pa.Array:
    """The answer of each state."""
    aggregate = _aggregate(view, call.part)
    return aggregate.present([column] if len(aggregate.states) == 1 else column.flatten())


def _aggregate(view: View, measure: str) -> Aggregate:
    return next(one.aggregate for one in bind(view).measures if one.name == measure)


@dataclass(frozen=True)
class OutsideWindow:
    """A window of a class of the project: `placement` is its own but for the steps, of which it has those that `steps` names."""

    view: str
    text: str
    inputs: tuple[str, ...]
    steps: tuple[str, ...]
    placement: Placement = field(hash=False)  # its steps hold mappings
    run: Run = field(repr=False)

    def __str__(self) -> str:
        return self.text

    def bind(self, source: Source, types: Sequence[ValueType]) -> Placement:  # noqa: ARG002  the class has said what is where
        """As the class itself; events cannot be placed here. Raises what `run` raises when rows are grouped."""
        steps = {name: self._step(name) for name in self.steps}
        return replace(self.placement, steps=Steps(Step({}), **steps))

    def _step(self, name: str) -> Step:
        columns = _columns(self.placement, name)

        def prepare(rows: pa.Table, keys: Sequence[str]) -> pa.Table:
            """The rows of each group that they are in, with the group's columns and its number."""
            given = rows.select([*keys, *(column.name for column in self.placement.columns.states)])
            groups = self.run(Call(self.view, name, "group"), _as_value(given), pa.list_(pa.struct([*columns, _ROWS]))).flatten()
            numbers = groups.field(_ROWS.name)
            of = pc.list_parent_indices(numbers)
            found = rows.take(numbers.flatten()).append_column(_GROUP, of)
            for column in columns:
                values = groups.field(column.name).take(of)
                place = found.schema.get_field_index(column.name)
                found = found.append_column(column, values) if place < 0 else found.set_column(place, column, values)
            return found

        return Step({name: quoted(name) for name in (_GROUP, *(column.name for column in columns))}, prepare=prepare)


def grouped(view: View, call: Call, rows: pa.Array) -> pa.Array:
    """The groups that a step of the view's window makes of rows."""
    placement = bind(view).placement
    step: Step = getattr(placement.steps, call.part)
    table = pa.Table.from_batches([pa.RecordBatch.from_struct_array(rows.flatten())])
    table = table.append_column(_ROW, arrays.from_numpy(np.arange(len(table)), pa.int64()))
    if step.prepare is not None:
        table = step.prepare(table, list(view.keys))
    sql = step.sql(_TABLE, {name: quoted(name) for name in view.keys}, {_ROWS.name: f"list({quoted(_ROW)})"})
    found = engine.query(sql, {_TABLE: table})
    columns = [*_columns(placement, call.part), _ROWS]
    return _as_value(arrays.table([arrays.whole(found[column.name]) for column in columns], pa.schema(columns)))


def _columns(placement: Placement, step: str) -> tuple[pa.Field, ...]:
    """The columns that place what a step gives."""
    if step != "arrange":
        return placement.columns.states
    return (*placement.columns.answers, COMPLETE) if placement.in_order else placement.columns.answers


def _as_value(table: pa.Table) -> pa.Array:
    """A table as a column of one value."""
    fields = [pa.field(one.name, one.type) for one in table.schema]
    structs = pa.StructArray.from_arrays([arrays.whole(column) for column in table.columns], fields=fields)
    return arrays.lists(structs, np.array([len(structs)]), pa.list_(pa.struct(fields)))
