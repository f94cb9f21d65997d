"""Values of the events that come first or last: by event time, or by another expression.

The order is total: events with equal times are ordered by topic generation, partition, offset and index. So the answer is the
same for every split and order of the events, in every layer. A topic that was created again is a new generation, whose events
come after those of the earlier one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import EVENT_TIME, LOG_ORDER, Aggregate, Facts, Measure, State
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType, answer_field
from tandem.views.sql.engine import quoted

End = Literal["min", "max"]
Order = Literal["time", "log"]

_MOST: Final = 1_000
_SORT: Final[dict[End, str]] = {"min": "list_sort", "max": "list_reverse_sort"}
_VALUE: Final = "value"
GONE: Final = "gone"
"""The part of a state of NewestVersion that says whether the event is gone."""

_BY: Final = "by"
_PLACE: Final = ("time", "generation", "partition", "offset")


@dataclass(frozen=True)
class One:
    """The value of the first or last event in order that has one; null if none has."""

    facts: ClassVar = Facts(
        merge="one comparison",
        inverse="no",
        source="an order of all events: by time, then by generation, partition, offset",
        varying="the value and 32 for its place",
    )

    expression: str
    end: End

    def __str__(self) -> str:
        return call({"min": "first", "max": "last"}[self.end], self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expression, and the event's time and place."""
        return (self.expression, EVENT_TIME, *LOG_ORDER)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact, of the expression's type. The state is the value with its place."""
        value = types[0]
        packed = _packed({name: number for number, name in enumerate(_PLACE, 1)} | {_VALUE: 0})
        state = State(
            self.end,
            pa.struct([*_place(types), (_VALUE, value.arrow)]),
            fold=f"{self.end}({packed}) FILTER ({{0}} IS NOT NULL)",
            merge=f"{self.end}({{0}})",
        )
        return Aggregate((state,), value.arrow, value.kind, lambda columns: columns[0].flatten()[-1])


@dataclass(frozen=True)
class Several:
    """The values of the first or last `k` events in order, or of all events if there are at most `k`; empty if there is none.

    The order is that of the event time, or of `by`: then the answer has its values, too, and events where it is null are ignored.
    """

    facts: ClassVar = Facts(
        merge="the values of both sorted by place",
        inverse="no",
        source="an order of all events: by what decides, by time, then by generation, partition, offset",
        varying="at most `k` values and 32 each for their places",
    )

    expression: str
    k: int
    end: End
    by: str | None = None

    def __post_init__(self) -> None:
        """Raises DefinitionError if k is not an integer from 1 to 1000."""
        if not isinstance(self.k, int) or isinstance(self.k, bool) or not 1 <= self.k <= _MOST:
            raise DefinitionError(f"k {self.k!r} is not an integer from 1 to {_MOST}")

    def __str__(self) -> str:
        if self.by is None:
            return call({"min": "first_k", "max": "last_k"}[self.end], self.expression, self.k)
        return call({"min": "min_by", "max": "max_by"}[self.end], self.expression, self.by, self.k)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expression, the event's time and place, and `by`."""
        return (self.expression, EVENT_TIME, *LOG_ORDER, *(() if self.by is None else (self.by,)))

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact: a list of values, or of structs of `by` and `value`. The state is at most k of them with their places."""
        value, by = types[0], types[-1]
        places = {name: number for number, name in enumerate(_PLACE, 1)} | {_VALUE: 0}
        fields, decisive, item = [*_place(types), (_VALUE, value.arrow)], "{0}", answer_field("item", value)
        if self.by is not None:
            decisive = f"{{{len(types) - 1}}}"
            places = {_BY: len(types) - 1} | places
            fields = [(_BY, by.arrow), *fields]
            item = pa.field("item", pa.struct([answer_field(_BY, by), answer_field(_VALUE, value)]))
        sort, answer = _SORT[self.end], pa.list_(item)
        state = State(
            self.end,
            pa.list_(pa.struct(fields)),
            fold=f"{sort}(list({_packed(places)}) FILTER ({decisive} IS NOT NULL))[1:{self.k}]",
            merge=f"{sort}(flatten(list({{0}}) FILTER ({{0}} IS NOT NULL)))[1:{self.k}]",
        )
        return Aggregate((state,), answer, "list", lambda columns: _present(columns, answer))


@dataclass(frozen=True)
class NewestVersion:
    """The value of the latest event, NULL too: a field of a table's rows. Each state says whether its event is `gone`.

    With the order "log" the latest event is that with the greatest place, whatever its time.
    """

    facts: ClassVar = One.facts

    expression: str
    gone: str | None = None
    order: Order = "time"

    def __str__(self) -> str:
        return call("newest", self.expression)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The expression, the event's time and place, and whether the event is gone."""
        return (self.expression, EVENT_TIME, *LOG_ORDER, *(() if self.gone is None else (self.gone,)))

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact, of the expression's type. Raises DefinitionError if `gone` is not a condition."""
        value, numbers = types[0], list(enumerate(_PLACE, 1))
        if self.gone is not None and types[-1].kind != "boolean":
            raise DefinitionError(f"gone: {self.gone!r} is of type {types[-1].sql}; a condition is BOOLEAN")
        places = {name: number for number, name in (numbers if self.order == "time" else [*numbers[1:], numbers[0]])}
        fields = [(name, types[number].arrow) for name, number in places.items()]
        if self.gone is not None:
            places |= {GONE: len(types) - 1}
            fields.append((GONE, pa.bool_()))
        packed = _packed(places | {_VALUE: 0})
        state = State("max", pa.struct([*fields, (_VALUE, value.arrow)]), fold=f"max({packed})", merge="max({0})")
        return Aggregate((state,), value.arrow, value.kind, lambda columns: columns[0].flatten()[-1])


def first(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002  the word of SQL
    """The value of the earliest event."""
    return filtered(One(expression, "min"), filter, of)


def last(expression: str, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002
    """The value of the latest event."""
    return filtered(One(expression, "max"), filter, of)


def first_k(expression: str, k: int, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002
    """The values of the k earliest events, the earliest first."""
    return filtered(Several(expression, k, "min"), filter, of)


def last_k(expression: str, k: int, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002
    """The values of the k latest events, the latest first."""
    return filtered(Several(expression, k, "max"), filter, of)


def max_by(expression: str, by: str, k: int, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002
    """The values of `expression` for the k largest values of `by`, with these: `max_by("merchant", "amount", 3)`.

    The largest comes first, of equal ones the latest.
    """
    return filtered(Several(expression, k, "max", by), filter, of)


def min_by(expression: str, by: str, k: int, *, filter: str | None = None, of: Source | None = None) -> Measure:  # noqa: A002
    """The values of `expression` for the k smallest values of `by`, with these: `min_by("merchant", "amount", 3)`.

    The smallest comes first, of equal ones the earliest.
    """
    return filtered(Several(expression, k, "min", by), filter, of)


def _place(types: Sequence[ValueType]) -> list[tuple[str, pa.DataType]]:
    """The fields by which events are ordered, with the types of their inputs."""
    return [(name, types[number].arrow) for number, name in enumerate(_PLACE, 1)]


def _packed(places: dict[str, int]) -> str:
    """SQL for a struct of inputs by number, which sorts by its fields in turn."""
    return f"struct_pack({', '.join(f'{quoted(name)} := {{{number}}}' for name, number in places.items())})"


def _present(columns: Sequence[pa.Array], answer: pa.DataType) -> pa.Array:
    (held,) = columns
    by, *_, value = held.flatten().flatten()
    item = answer.value_type
    values = pa.StructArray.from_arrays([by, value], fields=list(item)) if pa.types.is_struct(item) else value
    return arrays.lists(values, arrays.lengths(held), answer)
