"""Measures that a project writes itself, over Arrow arrays.

    @dataclass(frozen=True)
    class Range(CustomMeasure):
        expression: str
        state = pa.struct([("low", pa.int64()), ("high", pa.int64())])
        answer = pa.int64()

        @property
        def inputs(self):
            return (self.expression,)

        def partial(self, groups):
            return self.within(groups, "v0", "v0")

        def merge(self, groups):
            return self.within(groups, "low", "high")

        def present(self, states):
            return pc.subtract(states.field("high"), states.field("low"))

        def within(self, groups, low, high):
            starts = groups.offsets.to_numpy()[:-1]
            lowest = np.minimum.reduceat(groups.values.field(low).to_numpy(), starts)
            highest = np.maximum.reduceat(groups.values.field(high).to_numpy(), starts)
            return pa.StructArray.from_arrays([lowest, highest], names=["low", "high"])

A method gets all groups at once, as a list array whose offsets begin at 0, and returns one value for each group. It gets no empty
group and no null: events with a null input are left out, a group without any event has a null state, and a null state has a null
answer.
"""

import dataclasses
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays, python_values
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError, TandemError, TooLong, said_by
from tandem.views.measures.filtered import Filtered
from tandem.views.measures.measure import Aggregate, Approximation, Facts, Measure, State
from tandem.views.measures.of_source import OfSource
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType, kind_of

_PARAMETERS: Final = (bool, int, float, str, bytes, Decimal, date, timedelta, type(None))


class MethodFailed(TandemError, code="measure-failed"):
    """A method of a project's measure raised, or returned a value of another type or length than declared."""


@dataclasses.dataclass(frozen=True)
class CustomMeasure:
    """Derive from it a frozen dataclass; its fields are its parameters, and its code counts in the view's fingerprint.

    `state` and `answer` are Arrow types: bool, int64, float64, string, binary, date32, timestamp("us", "UTC"), decimal128,
    and lists and structs of them. An answer must not depend on how the events are split, grouped and ordered;
    `tandem check --laws` searches for rows for which it does. An answer from a state with doubles counts as approximate.
    """

    facts: ClassVar = Facts(
        merge="what the class does",
        inverse="no",
        source="the project's own class",
        varying="one value of the class's Arrow type `state`",
    )

    state: ClassVar[pa.DataType]
    answer: ClassVar[pa.DataType]

    def __post_init__(self) -> None:
        """Raises DefinitionError for a parameter that a fingerprint cannot take."""
        for name in sorted(field.name for field in dataclasses.fields(self)):
            if not _plain(value := getattr(self, name)):
                raise DefinitionError(
                    f"{type(self).__name__}.{name} is {value!r}; a parameter is a text, a number, a date, or a tuple of them"
                )

    def __str__(self) -> str:
        return call(type(self).__name__, *(getattr(self, field.name) for field in dataclasses.fields(self)))

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expressions that the measure reads, at least one."""
        raise NotImplementedError("a measure must name the expressions that it reads")

    def partial(self, groups: pa.ListArray) -> pa.Array:
        """The state of each group of events: structs of the inputs' values, in fields v0, v1, ..., in no order."""
        raise NotImplementedError

    def merge(self, groups: pa.ListArray) -> pa.Array:
        """The state of each group of states, in no order."""
        raise NotImplementedError

    def present(self, states: pa.Array) -> pa.Array:
        """The answer of each state."""
        raise NotImplementedError

    def strategy(self) -> Any:
        """A Hypothesis strategy for the inputs of one event: tuples of a value, never None, for each. Import hypothesis here."""
        raise NotImplementedError

    def filtered(self, condition: str) -> Measure:
        """The measure over the events for which a condition is true."""
        return Filtered(self, condition)

    def of(self, source: Source) -> Measure:
        """The measure over the events of one of a view's sources."""
        return OfSource(self, source)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """One state, and an answer of the declared type."""
        return aggregate_of(
            types,
            self.state,
            self.answer,
            partial=lambda lists: self._called(self.partial, lists, self.state),
            merge=lambda lists: self._called(self.merge, lists, self.state),
            present=lambda states: self._called(self.present, states, self.answer),
        )

    def _called(self, method: Callable[[Any], Any], column: pa.Array, expected: pa.DataType) -> pa.Array:
        """The method's results for the values that are not null, with nulls in the places of the nulls. Raises MethodFailed."""
        python_values.do_without_pandas()
        valid, name = arrays.validity(column), f"{type(self).__name__}.{method.__name__}"
        if not valid.any():
            return pa.nulls(len(column), expected)
        given = column.drop_null()
        if pa.types.is_list(given.type):
            given = arrays.lists(given.flatten(), arrays.lengths(given), given.type)
        try:
            result = method(given)
        except TooLong as error:
            raise MethodFailed(f"{name} {error}") from error
        except Exception as error:
            raise MethodFailed(f"{name} raised {said_by(error)}") from error
        if not isinstance(result, pa.Array):
            raise MethodFailed(f"{name} returned a {type(result).__name__}; expected a pyarrow.Array of type {expected}")
        if result.type != expected:
            raise MethodFailed(f"{name} returned an array of type {result.type}; expected {expected}")
        if len(result) != len(given):
            raise MethodFailed(f"{name} returned {len(result)} values for {len(given)}; expected one for each")
        try:
            result.validate(full=True)
        except pa.ArrowInvalid as error:
            raise MethodFailed(f"{name} returned an invalid array: {error}") from error
        return result if valid.all() else result.take(arrays.from_numpy(np.cumsum(valid) - 1, pa.int64(), valid))

    def check(self) -> None:
        """Raises DefinitionError if the class does not satisfy the contract of `CustomMeasure`."""
        kind = type(self)
        try:
            inputs = self.inputs
        except Exception as error:
            raise DefinitionError(f"{kind.__name__}.inputs raised {said_by(error)}") from error
        if not isinstance(inputs, tuple) or not inputs or not all(isinstance(text, str) for text in inputs):
            raise DefinitionError(f"{kind.__name__}.inputs is {inputs!r}, not a tuple of expressions, such as ('amount',)")
        for name in ("state", "answer"):
            declared = getattr(self, name, None)
            if not isinstance(declared, pa.DataType) or kind_of(declared) is None or not _named(declared):
                raise DefinitionError(
                    f"{kind.__name__}.{name} is {declared!r}, not one of the Arrow types bool, int64, float64, string, binary, "
                    "date32, timestamp('us', 'UTC'), decimal128, or a list or struct of them with a name for each field"
                )
        for name in ("partial", "merge", "present"):
            if getattr(kind, name) is getattr(CustomMeasure, name):
                raise DefinitionError(f"{kind.__name__} has no method {name!r}; a measure has partial, merge and present")
        fields = {field.name for field in dataclasses.fields(self)}
        if hidden := sorted(vars(self).keys() - fields):
            raise DefinitionError(
                f"{kind.__name__} has an attribute {hidden[0]!r} that is not a field; make it a field of a frozen dataclass"
            )
        CustomMeasure.__post_init__(self)  # a subclass may define its own


def aggregate_of(
    types: Sequence[ValueType],
    state: pa.DataType,
    answer: pa.DataType,
    *,
    partial: Callable[[pa.ListArray], pa.Array],
    merge: Callable[[pa.ListArray], pa.Array],
    present: Callable[[pa.Array], pa.Array],
) -> Aggregate:
    """One state of the groups of events that have all inputs, in fields v0, v1, ..., and an answer of each state."""
    names = [f"v{number}" for number in range(len(types))]
    packed = ", ".join(f"{name} := {{{number}}}" for number, name in enumerate(names))
    given = " AND ".join(f"{{{number}}} IS NOT NULL" for number in range(len(types)))
    rows = pa.list_(pa.struct([(name, value.arrow) for name, value in zip(names, types, strict=True)]))
    kept = State(
        "state",
        state,
        fold=f"list(struct_pack({packed})) FILTER ({given})",
        merge="list({0}) FILTER ({0} IS NOT NULL)",
        build=lambda lists: partial(lists.cast(rows)),
        unite=lambda lists: merge(lists.cast(pa.list_(state))),
    )

    def presented(columns: Sequence[pa.Array]) -> pa.Array:
        (states,) = columns
        return present(states)

    kind = kind_of(answer)
    assert kind is not None  # checked
    return Aggregate((kept,), answer, kind, presented, Approximation("order") if _has_doubles(state) else None)


def told(aggregate: Aggregate, place: str) -> Aggregate:
    """The aggregate, whose failures name the place: view and measure."""

    def at_place(function: Callable[[Any], pa.Array]) -> Callable[[Any], pa.Array]:
        def called(column: Any) -> pa.Array:
            try:
                return function(column)
            except MethodFailed as error:
                raise TandemError(f"{place}: {error}") from error

        return called

    states = tuple(
        dataclasses.replace(state, build=state.build and at_place(state.build), unite=state.unite and at_place(state.unite))
        for state in aggregate.states
    )
    return dataclasses.replace(aggregate, states=states, present=at_place(aggregate.present))


def _plain(value: Any) -> bool:
    """Whether repr gives the whole value, because a fingerprint hashes the repr of a parameter."""
    return all(map(_plain, value)) if isinstance(value, tuple) else isinstance(value, _PARAMETERS)


def _named(arrow: pa.DataType) -> bool:
    """Whether the fields of every struct in the type have distinct names."""
    if pa.types.is_list(arrow):
        return _named(arrow.value_type)
    if not pa.types.is_struct(arrow):
        return True
    names = [field.name.casefold() for field in arrow]
    return all(names) and len(set(names)) == len(names) and all(_named(field.type) for field in arrow)


def _has_doubles(arrow: pa.DataType) -> bool:
    if pa.types.is_list(arrow):
        return _has_doubles(arrow.value_type)
    if pa.types.is_struct(arrow):
        return any(_has_doubles(field.type) for field in arrow)
    return bool(pa.types.is_floating(arrow))
