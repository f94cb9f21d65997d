"""Debezium's change events as a decoder: one value is what happened to one row (change_reader.py), in JSON or in Avro.

* `debezium()` reads JSON, with or without its schema.
* `debezium(registry="http://...")` reads Avro as Kafka Connect's Avro converters write it, with schemas of the registry.
* `debezium(schemas={7: ...})` reads such values without the registry: a zero byte, the schema's id in four bytes, the record.

A record's key is in Avro, too, or else in JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.format import Listed, Parse
from tandem.views.source.formats.avro import Schema
from tandem.views.source.formats.change_events.change_reader import ChangeReader, refuse_lists
from tandem.views.source.formats.change_events.debezium_avro import DebeziumAvro, DebeziumFromRegistry, canonical_schemas
from tandem.views.source.formats.schema_registry import check_address


@dataclass(frozen=True)
class Debezium:
    """The decoder of change events in JSON. With `before` the deleted row is what `before` has."""

    record_parts: ClassVar[tuple[str, ...]] = ("key", "timestamp")
    reads_tombstones: ClassVar[bool] = True

    before: bool = False

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value, its key and timestamp to one event; raises DefinitionError as the json decoder does."""
        return ChangeReader(event, before=self.before).parse

    def refuse_lists(self, event: type[Event]) -> Listed:
        """Raises DefinitionError: a value is one change."""
        return refuse_lists(event)

    listed = refuse_lists

    def __str__(self) -> str:
        return "debezium(before=True)" if self.before else call("debezium")


def debezium(
    *, before: bool = False, registry: str | None = None, schemas: Mapping[int, Schema] | None = None
) -> Debezium | DebeziumAvro | DebeziumFromRegistry:
    """Decode Debezium's change events: one value is what happened to one row, in JSON with or without schema.

    With the address of a schema `registry`, or its `schemas` by id, values are in Avro. With `before=True` a deleted row has all
    of its columns. Declare it for MySQL, and for tables of PostgreSQL with REPLICA IDENTITY FULL; of others Debezium fills
    columns that it does not know with defaults.
    """
    if not isinstance(before, bool):
        raise DefinitionError(f"debezium: before {before!r} is neither True nor False")
    if registry is not None and schemas is not None:
        raise DefinitionError("debezium: give either registry='http://...' or schemas={id: ...}, and neither for JSON")
    if registry is not None:
        return DebeziumFromRegistry(check_address("debezium", registry), before=before)
    return Debezium(before) if schemas is None else DebeziumAvro(canonical_schemas(schemas), before)
