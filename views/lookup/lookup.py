"""A look-up: the row of a table for each event of a view, which the view's expressions read as columns of a struct.

    price_of = Table(prices, key={"sku": "sku"}, gone="deleted")
    sales = View(source=orders, lookup={"p": price_of.as_of(sku="sku")}, measures={"revenue": total("items * p.price")})

The key of a look-up may read columns of those before it: {"p": price_of.as_of(sku="sku"), "m": maker_of.as_of(id="p.maker")}.
`tandem.views.kernel.look_up` finds the rows. In a file of the project (`tandem.views.lookup.file_table`) there is one version.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, Protocol, cast

import duckdb
import pyarrow as pa

from tandem.views.errors import DefinitionError, listed
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.sql import engine
from tandem.views.sql.expressions import Expression, bind_expression
from tandem.views.sql.syntax import enclosed
from tandem.views.value_forms import display_text, not_a_text

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]*", re.ASCII)
_MISSING: Final = "'null', 'reject' or constants by column, such as {'price': '0'}"

How = Literal["as_of", "now"]
"""Which version of a key is found: the one at the event's own time, or the latest."""

Missing = Literal["null", "reject"] | Mapping[str, str]
"""What an event without a row gets: NULL, a rejection, or a row of these constants."""


class LookedUp(Protocol):
    """A table in which views look up: its source, its key's columns, and the type of its rows without them."""

    @property
    def lookup_source(self) -> Source | None:
        """The source whose events are its versions; None of a file."""

    @property
    def label(self) -> str:
        """What errors call it."""

    @property
    def summary(self) -> str:
        """What it is, for a person."""

    @property
    def lookup_keys(self) -> Mapping[str, ValueType]:
        """The columns of its key with their types."""

    @property
    def row_type(self) -> pa.StructType:
        """The type of a row, without the key."""


@dataclass(frozen=True)
class Lookup:
    """The row of `table` that has the values of `key`, expressions over the event in the order of the table's key.

    `defaults` has the columns of an event without a row, as constants in SQL; without any that row is NULL, and with `reject`
    the view rejects the event.
    """

    table: LookedUp
    key: tuple[tuple[str, str], ...]
    how: How = "now"
    reject: bool = False
    defaults: tuple[tuple[str, str], ...] = ()

    @property
    def text(self) -> str:
        """What is looked up, for a person."""
        how = "" if self.how == "now" else " as of the event's time"
        missing = ", else rejected" if self.reject else "".join(f", else {name} {text}" for name, text in self.defaults)
        return f"{self.table.summary}{how} by {', '.join(text for _, text in self.key)}{missing}"


def lookup_in(table: LookedUp, how: How, key: Mapping[str, Any], missing: Any) -> Lookup:
    """The look-up by these expressions. Raises DefinitionError unless they are those of the table's key."""
    names, example = [*table.lookup_keys], ", ".join(f"{name}='...'" for name in table.lookup_keys)
    if {*key} != {*names}:
        keys = "its key is" if len(names) == 1 else "its keys are"
        raise DefinitionError(f"look-up in {table.label}: {keys} {', '.join(names)}; write {how}({example})")
    if not (missing in ("null", "reject") if isinstance(missing, str) else isinstance(missing, Mapping) and missing):
        raise DefinitionError(f"look-up in {table.label}: missing={display_text(missing)}; expected {_MISSING}")
    defaults = () if isinstance(missing, str) else tuple(missing.items())
    return Lookup(table, tuple((name, key[name]) for name in names), how, missing == "reject", defaults)


@dataclass(frozen=True)
class BoundLookup:
    """A look-up of a view: its name, what it looks up, the expressions of the key, and the columns of an event without a row.

    `depth` is 0 if the key reads the event alone, else one more than the greatest depth of the look-ups that it reads.
    """

    name: str
    lookup: Lookup
    keys: tuple[Expression, ...]
    defaults: tuple[tuple[str, pa.Array], ...] = ()
    depth: int = 0


def expression_inputs(source: Source, lookups: Mapping[str, Any], place: str) -> tuple[pa.Schema, str, tuple[BoundLookup, ...]]:
    """What expressions read: the columns, what errors call an event, and the look-ups. Raises DefinitionError."""
    fields, event = prepared_schema(source), source.event.__name__
    if source.prepare is not None:
        event = f"{event} prepared by {source.prepare.__name__}"
    bound = _bind(lookups, source, event, place)
    return with_lookups(fields, bound), event, bound


def check_place(lookups: Mapping[str, Any], place: str, what: str) -> None:
    """Raise DefinitionError if a view looks up in tables of sources although it has, or reads, `what`."""
    for name, lookup in lookups.items() if what else ():
        if isinstance(lookup, Lookup) and lookup.table.lookup_source is not None:
            raise DefinitionError(
                f"{place}, lookup {name!r}: a view with {what} does not look up in a table of a source yet; look up in a "
                "file, or join both in SQL (docs/tables.md)"
            )


def _bind(lookups: Mapping[str, Any], source: Source, event: str, place: str) -> tuple[BoundLookup, ...]:
    fields = prepared_schema(source)
    _check(lookups, source, event, place)
    every = [(name, lookup.table.row_type) for name, lookup in lookups.items()]
    bound = list[BoundLookup]()
    for name, lookup in lookups.items():
        part = f"{place}, lookup {name!r}"
        later = [other for other, _ in every[len(bound) :]]
        keys = tuple(_key(lookup.table, key, pa.schema([*fields, *every]), event, part) for key in lookup.key)
        for key in keys:
            if unknown := sorted(key.fields & {*later}):
                raise DefinitionError(
                    f"{part}: {key.text!r} reads look-up {', '.join(map(repr, unknown))}; a key reads the event, and look-ups "
                    "before it in the view's `lookup`"
                )
        read = frozenset[str]().union(*(key.fields for key in keys))
        depth = max((each.depth + 1 for each in bound if each.name in read), default=0)
        bound.append(BoundLookup(name, lookup, keys, tuple(_defaults(lookup, part)), depth))
    return tuple(bound)


def _check(lookups: Mapping[str, Any], source: Source, event: str, place: str) -> None:
    """Raise DefinitionError for a name, or for what is not a look-up, or not in another table."""
    fields = prepared_schema(source)
    names = {name.casefold(): name for name in fields.names}
    for name, lookup in lookups.items():
        part = f"{place}, lookup {name!r}"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise DefinitionError(f"{part} is not a name: a letter, then letters, digits and underscores")
        if (other := names.setdefault(name.casefold(), name)) != name or name in fields.names:
            raise DefinitionError(f"{part}: {event} has a field {other!r}; give the look-up another name")
        if not isinstance(lookup, Lookup):
            raise DefinitionError(
                f"{part}: {type(lookup).__name__} is not a look-up, such as price_of.as_of(sku='sku') for price_of = Table(...), "
                "or regions.now(code='region') for regions = Table.from_file('regions.csv', key='code')"
            )
        if lookup.table.lookup_source == source:
            raise DefinitionError(
                f"{part}: {lookup.table.label} is a table of the view's own source, whose events would be folded with versions "
                "that they are themselves; take a table of another source"
            )


def _key(table: LookedUp, key: tuple[str, Any], fields: pa.Schema, event: str, part: str) -> Expression:
    of, text = key
    if not isinstance(text, str):
        raise DefinitionError(f"{part}: {text!r} {not_a_text(text)}")
    try:
        bound = bind_expression(text, fields, event)
    except DefinitionError as error:
        raise DefinitionError(f"{part}: {text!r} {error}") from error
    wanted = table.lookup_keys[of]
    if bound.type != wanted and {bound.type.kind, wanted.kind} != {"integer"}:
        raise DefinitionError(
            f"{part}: {text!r} is of type {bound.type.sql}; {of} of {table.label} is of type {wanted.sql}; write "
            f"CAST({text} AS {wanted.sql})"
        )
    return bound


def _defaults(lookup: Lookup, part: str) -> list[tuple[str, pa.Array]]:
    """The constants of an event without a row, each an array of one value. Raises DefinitionError."""
    row, defaults = lookup.table.row_type, []
    for name, text in lookup.defaults:
        where = f"{part}, missing {name!r}"
        if row.get_field_index(name) < 0:
            raise DefinitionError(f"{where}: {lookup.table.label} has no such column; columns: {listed(str(name), row.names)}")
        if not isinstance(text, str):
            raise DefinitionError(f"{where}: {text!r} {not_a_text(text)}")
        type_ = row.field(name).type
        try:
            constant = bind_expression(text, pa.schema([("_", pa.bool_())]), "a constant")
            value = engine.query(f"SELECT {enclosed(text)} AS v", {})["v"].combine_chunks().cast(type_)
        except (DefinitionError, duckdb.Error, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise DefinitionError(f"{where}: {text!r} is not a constant of type {type_}: {str(error).splitlines()[0]}") from error
        if constant.fields:
            raise DefinitionError(f"{where}: {text!r} reads a field; it is a constant, such as '0'")
        defaults.append((name, cast("pa.Array", value)))
    return defaults


def with_lookups(fields: pa.Schema, lookups: tuple[BoundLookup, ...]) -> pa.Schema:
    """The fields of events, and the columns of the look-ups."""
    return pa.schema([*fields, *((each.name, each.lookup.table.row_type) for each in lookups)])


def reading_events(expression: Expression, lookups: tuple[BoundLookup, ...]) -> Expression:
    """The expression with the fields of events that it reads, those of the keys of its look-ups among them."""
    return replace(expression, fields=_with_keys(expression, lookups) - {each.name for each in lookups})


def lookups_behind(expression: Expression, lookups: tuple[BoundLookup, ...]) -> frozenset[str]:
    """The names of the look-ups that an expression reads, and of those by which these find their rows."""
    return _with_keys(expression, lookups) & {each.name for each in lookups}


def _with_keys(expression: Expression, lookups: tuple[BoundLookup, ...]) -> frozenset[str]:
    """What an expression reads, and what the keys of its look-ups read; a key reads earlier look-ups alone."""
    read = expression.fields
    for each in reversed(lookups):
        if each.name in read:
            read = read.union(*(key.fields for key in each.keys))
    return read
