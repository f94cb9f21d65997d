"""Tests, on random rows, of the laws that make answers independent of how events are split.

They are the laws of measures, and that a source's `prepare` treats each event independently.

Needs Hypothesis, which finds rows that break a law and shrinks them.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import errors as hypothesis_errors
from hypothesis import strategies as st

from tandem.views.arrow import arrays, python_values
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.errors import TandemError, said_by
from tandem.views.kernel.kernel import prepare
from tandem.views.measures.custom import CustomMeasure, MethodFailed
from tandem.views.source.event import Event
from tandem.views.source.source import METADATA_SCHEMA, Source
from tandem.views.source.value_types import ValueType
from tandem.views.testing import events_table
from tandem.views.verify import random_events

_TOLERANCE: Final = 1e-9
_LONGEST: Final = 8
_COLUMN: Final = "state"

Rows = list[tuple[Any, ...]]


class _Broken(Exception):
    """A law does not hold for some rows."""


@dataclass(frozen=True)
class _Bound:
    """A measure bound to the types of its inputs: each method over lists of groups, as the kernel calls it."""

    measure: CustomMeasure
    types: tuple[ValueType, ...]

    def fold(self, *groups: Rows) -> list[pa.Array]:
        """The state of each group, as an array of one."""
        (state,) = self.measure.bind(self.types).states
        names = [f"v{number}" for number in range(len(self.types))]
        rows = pa.list_(pa.struct([(name, value.arrow) for name, value in zip(names, self.types, strict=True)]))
        structs = [[dict(zip(names, row, strict=True)) for row in group] or None for group in groups]
        try:
            lists = python_values.array(structs, rows)
        except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, OverflowError) as error:
            wanted = ", ".join(value.sql for value in self.types)
            raise TandemError(f"{type(self.measure).__name__}.strategy gave a row that is not ({wanted}): {error}") from error
        assert state.build is not None
        folded = state.build(lists)
        return [folded.slice(number, 1) for number in range(len(groups))]

    def merge(self, *states: pa.Array) -> pa.Array:
        """The state of one group of states, without null states."""
        (state,) = self.measure.bind(self.types).states
        given = pa.concat_arrays(states).drop_null()
        length = np.array([len(given)])
        lists = arrays.lists(given, length, pa.list_(state.type), length > 0)
        assert state.unite is not None
        return state.unite(lists)

    def answer(self, state: pa.Array) -> Any:
        return self.measure.bind(self.types).present([state]).to_pylist()[0]


Law = Callable[[_Bound, Rows, Rows, Rows, Rows], Iterator[tuple[pa.Array, pa.Array]]]
"""Pairs of states that must give the same answer, for three groups of rows and for all of them in another order."""


def _commutative(measure: _Bound, a: Rows, b: Rows, _c: Rows, _shuffled: Rows) -> Iterator[tuple[pa.Array, pa.Array]]:
    one, other = measure.fold(a, b)
    yield measure.merge(one, other), measure.merge(other, one)


def _associative(measure: _Bound, a: Rows, b: Rows, c: Rows, _shuffled: Rows) -> Iterator[tuple[pa.Array, pa.Array]]:
    one, other, third = measure.fold(a, b, c)
    yield measure.merge(measure.merge(one, other), third), measure.merge(one, measure.merge(other, third))


def _identity(measure: _Bound, a: Rows, _b: Rows, _c: Rows, _shuffled: Rows) -> Iterator[tuple[pa.Array, pa.Array]]:
    one, nothing = measure.fold(a, [])
    yield measure.merge(one), one
    yield measure.merge(nothing, one), one


def _split(measure: _Bound, a: Rows, b: Rows, c: Rows, _shuffled: Rows) -> Iterator[tuple[pa.Array, pa.Array]]:
    yield measure.merge(*measure.fold(a, b, c)), measure.fold(a + b + c)[0]


def _order(measure: _Bound, a: Rows, b: Rows, c: Rows, shuffled: Rows) -> Iterator[tuple[pa.Array, pa.Array]]:
    yield measure.fold(shuffled)[0], measure.fold(a + b + c)[0]


def _groups(measure: _Bound, a: Rows, b: Rows, c: Rows, _shuffled: Rows) -> Iterator[tuple[pa.Array, pa.Array]]:
    for together, rows in zip(measure.fold(a, b, c), (a, b, c), strict=True):
        yield together, measure.fold(rows)[0]


def _wire(measure: _Bound, a: Rows, _b: Rows, _c: Rows, _shuffled: Rows) -> Iterator[tuple[pa.Array, pa.Array]]:
    (one,) = measure.fold(a)
    sent = from_ipc(to_ipc(pa.table({_COLUMN: one})))
    yield arrays.whole(sent[_COLUMN]), one


LAWS: Final[Mapping[str, Law]] = {
    "groups are folded apart": _groups,
    "the order of events does not matter": _order,
    "a merge of one state, or of it and nothing, is that state": _identity,
    "merge is commutative": _commutative,
    "merge is associative": _associative,
    "the merged parts are the whole": _split,
    "a state survives being sent": _wire,
}


def counterexample(measure: CustomMeasure, types: Sequence[ValueType], *, examples: int = 100) -> str | None:
    """The law that the measure breaks and the smallest counterexample found, in one sentence; None if none was found.

    `types` are those of its inputs. Answers are compared, doubles to within one part in 10^9. The rows are the same at every
    call. Raises TandemError if the measure has no strategy, or a strategy that gives rows of other types.
    """
    row = _strategy(measure, len(types))
    some, rows = st.lists(row, min_size=1, max_size=_LONGEST), st.lists(row, max_size=_LONGEST)
    parts = st.tuples(some, rows, rows).flatmap(lambda parts: st.tuples(st.just(parts), st.permutations([*chain(*parts)])))
    bound = _Bound(measure, tuple(types))
    for name, law in LAWS.items():
        broken = _tried(name, law, bound, parts, examples)
        if broken is not None:
            return broken
    return None


def dependent_rows(source: Source, *, examples: int = 100) -> str | None:
    """The smallest events found for which `prepare` returns other rows together than for each alone, in one sentence.

    None if none was found. The rows of an event are compared in any order, doubles to within one part in 10^9.
    The events are the same at every call. Raises TandemError if no events of the source's type can be drawn.
    """
    name = "prepare" if source.prepare is None else source.prepare.__name__
    logged = st.lists(st.tuples(random_events.events(source), _METADATA), min_size=1, max_size=_LONGEST)
    orders = logged.flatmap(lambda log: st.tuples(st.just(log), st.permutations(range(len(log)))))

    @given(orders)
    def holds(drawn: tuple[list[_Logged], list[int]]) -> None:
        log, order = drawn
        table = _logged(source, log)
        alone = [_prepared(source, table.slice(offset, 1)) for offset in range(len(log))]
        for offsets in (range(len(log)), order):
            found = _prepared(source, table.take(python_values.array(list(offsets), pa.int64())))
            for offset, rows in enumerate(alone):
                together = found.get(offset)
                if not _same(together, rows.get(offset)):
                    events = ", ".join(repr(log[each][0]) for each in offsets)
                    raise _Broken(
                        f"{name} does not treat each event independently: for {events} it returns {_said(together)} for "
                        f"{log[offset][0]!r}, and {_said(rows.get(offset))} for that event alone"
                    )

    try:
        _looked_for(holds, examples)
    except hypothesis_errors.Flaky:
        return f"{name} returns different rows for the same events"
    except _Broken as broken:
        return str(broken)
    except hypothesis_errors.HypothesisException as error:
        raise TandemError(f"events of {source.event.__name__} cannot be drawn: {error}") from error
    return None


_Logged = tuple[Event, tuple[bytes | None, list[dict[str, Any]]]]
_HEADER: Final = st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)})
_METADATA: Final = st.tuples(st.none() | st.binary(max_size=3), st.lists(_HEADER, max_size=2))


def _logged(source: Source, log: Sequence[_Logged]) -> pa.Table:
    """The events as the kernel takes them, at offsets from 0 on, with the metadata columns of their source."""
    table = events_table(source, [event for event, _ in log])
    for name, values in zip(("_key", "_headers"), zip(*(metadata for _, metadata in log), strict=True), strict=True):
        if name in source.metadata:
            field = METADATA_SCHEMA.field(name)
            table = table.set_column(table.column_names.index(name), field, python_values.array(values, field.type))
    return table


def _prepared(source: Source, events: pa.Table) -> dict[int, list[dict[str, Any]]]:
    """The rows made of each event, by its offset, sorted."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for row in prepare(source, events).events.to_pylist():
        rows.setdefault(row["_offset"], []).append(row)
    return {offset: sorted(found, key=repr) for offset, found in rows.items()}


def _said(rows: Iterable[Mapping[str, Any]] | None) -> str:
    """Rows without the columns of their event's position."""
    found = [{name: value for name, value in row.items() if not name.startswith("_")} for row in rows or ()]
    return f"{found!r}" if found else "nothing"


def _looked_for(holds: Callable[[], None], examples: int) -> None:
    """Call a property with examples, the same at every call, and raise its error for the smallest failing one."""
    settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=True,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )(holds)()


def _tried(name: str, law: Law, bound: _Bound, parts: st.SearchStrategy[Any], examples: int) -> str | None:
    @given(parts)
    def holds(drawn: tuple[tuple[Rows, Rows, Rows], Rows]) -> None:
        (a, b, c), shuffled = drawn
        place = f"rows {a}, {b} and {c}" + (f", or {shuffled}" if law is _order else "")
        try:
            for one, other in law(bound, a, b, c, shuffled):
                left, right = bound.answer(one), bound.answer(other)
                if not _same(left, right):
                    raise _Broken(f"broken law: {name}: for {place}, {left!r} is not {right!r}")
        except MethodFailed as error:
            raise _Broken(f"{error}; for {place}") from error

    try:
        _looked_for(holds, examples)
    except _Broken as broken:
        return str(broken)
    except hypothesis_errors.Flaky:
        return f"broken law: {name}, but not at every try: the same rows give different answers"
    except hypothesis_errors.HypothesisException as error:
        raise TandemError(f"{type(bound.measure).__name__}.strategy cannot be drawn from: {error}") from error
    return None


def _strategy(measure: CustomMeasure, inputs: int) -> st.SearchStrategy[tuple[Any, ...]]:
    name = f"{type(measure).__name__}.strategy"
    wanted = f"it gives a Hypothesis strategy for tuples of {inputs}, one value for each input"
    if type(measure).strategy is CustomMeasure.strategy:
        raise TandemError(f"{type(measure).__name__} has no method 'strategy', so its laws cannot be tried; {wanted}")
    try:
        rows = measure.strategy()
    except Exception as error:
        raise TandemError(f"{name} raised {said_by(error)}") from error
    if not isinstance(rows, st.SearchStrategy):
        raise TandemError(f"{name} gave {rows!r}; {wanted}")

    def checked(row: Any) -> tuple[Any, ...]:
        if not isinstance(row, tuple) or len(row) != inputs or None in row:
            raise TandemError(f"{name} gave the row {row!r}; {wanted}, never None")
        return row

    return rows.map(checked)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE) or (math.isnan(one) and math.isnan(other))
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return bool(one == other)
