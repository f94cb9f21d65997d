"""Avro: one value is one record in Avro's binary encoding, of a schema that the project holds. With
`max_events_per_record`, one value is one array of records. A schema may be a union with records: its other values are rejects.

* `avro(schema=...)` reads values that are the record alone.
* `avro(registry="http://...")` reads the values of producers with a schema registry, and fetches the schemas from it
  (schema_registry.py).
* `avro(schemas={7: ...})` reads such values without the registry: a zero byte, the schema's id in four bytes (big-endian), the
  record. A record of another id is quarantined until the project has its schema.

The event type takes the fields that it needs by name (its JSON key, where that differs), as in named_fields:

* An array is a list, a record a struct, a union with null an Optional.
* A field that a schema lacks has the event type's default, so one event type reads the records of all its schemas.
* A map is a dict; a key that it has twice rejects the record.
* Of a union the branches that a field takes are read; a value of another branch rejects the record.
* A field that the event type does not take is skipped by its physical type, so it decides nothing: the schema may be recursive
  there, and have invalid defaults and logical types.

fastavro reads the schemas, and avro_readers.py the values.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import builder, fields_to_unnest, item_values, named_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import Listed, NestedFormat, Parse, Unnest
from tandem.views.source.formats.avro_format.skip import build_item, item_text
from tandem.views.source.formats.schema_registry import FromRegistry, Kind, SchemaFrame, check_address

Schema = str | Mapping[str, Any] | list[Any]

_FRAME_BYTES: Final = 5


@dataclass(frozen=True)
class Avro:
    """A decoder of Avro: `schemas` is one schema, or one schema for each id of the registry, as JSON."""

    schemas: str | tuple[tuple[int, str], ...]

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value to one event; raises DefinitionError if a schema lacks a field that the event type needs."""
        read, build = self._reader(event, listed=False)
        return lambda value: build(read(value))

    def listed(self, event: type[Event]) -> Listed:
        """Values that are an array of records; raises DefinitionError also if a schema is not an array."""
        read, build = self._reader(event, listed=True)
        return Listed(read, build_item(build), item_text)

    def unnest(self, event: type[Event], place: Unnest) -> Listed:
        """Values that are a record with an array or map in the place of a field."""
        fields, several = fields_to_unnest(event, place)
        read, build = self._reader(event, listed=False, fields=fields)
        return Listed(lambda value: item_values(read(value), several), build)

    def _reader(
        self, event: type[Event], *, listed: bool, fields: tuple[Field, ...] = ()
    ) -> tuple[Callable[[bytes], Any], Callable[[Any], Any]]:
        """The function from one value to the values of a record by name, or to a list of those; then the one to the event."""
        from tandem.views.source.formats.avro_format.records import reader  # noqa: PLC0415 - few projects need fastavro

        build = builder(event)  # the readers have read the texts
        if isinstance(self.schemas, str):
            return reader(event, self.schemas, "the schema", listed=listed, fields=fields), build
        readers = {
            number: reader(event, schema, f"schema {number}", listed=listed, fields=fields) for number, schema in self.schemas
        }

        def read(value: bytes) -> Any:
            if len(value) < _FRAME_BYTES or value[0] != 0:
                raise Reject("format", "the value does not begin with a zero byte and a schema's id")
            number = int.from_bytes(value[1:_FRAME_BYTES], "big")
            if number not in readers:
                raise Reject("schema", f"the source has no schema {number}; schemas: {', '.join(map(str, sorted(readers)))}")
            return readers[number](value[_FRAME_BYTES:])

        return read, build

    def __str__(self) -> str:
        if isinstance(self.schemas, str):
            return call("avro", schema=self.schemas)
        return call("avro", schemas=dict(self.schemas))


@dataclass(frozen=True)
class AvroFromRegistry(FromRegistry):
    """The decoder of Avro with schemas of a registry."""

    kind: ClassVar[Kind] = "AVRO"

    def format_of(self, text: str, frame: SchemaFrame) -> Avro:
        """The decoder of one schema."""
        from tandem.views.source.formats.avro_format.records import canonical  # noqa: PLC0415 - few projects need fastavro

        return Avro(canonical(text, f"schema {frame.id}"))

    def check(self, event: type[Event], build: Callable[[NestedFormat], Any]) -> None:  # noqa: ARG002  the schemas alone say more
        """Raise DefinitionError if no record could give the event type's fields."""
        named_fields(event, "an Avro record")

    def __str__(self) -> str:
        return call("avro", registry=self.registry)


def avro(
    *, schema: Schema | None = None, schemas: Mapping[int, Schema] | None = None, registry: str | None = None
) -> Avro | AvroFromRegistry:
    """Decode Avro: values of one `schema`, or values that name their schema by its id in a registry.

    These are the schemas of the `registry` at an address, or `schemas`. A schema is a JSON text or the parsed JSON. It is a
    record, or a union with records; with `max_events_per_record` an array of them.
    """
    from tandem.views.source.formats.avro_format.records import canonical  # noqa: PLC0415 - few projects need fastavro

    if [schema, schemas, registry].count(None) != 2:
        raise DefinitionError(
            "avro: give either schema=..., or registry='http://...' or schemas={id: ...} for values that begin with a schema's id"
        )
    if registry is not None:
        return AvroFromRegistry(check_address("avro", registry))
    if schema is not None:
        return Avro(canonical(schema, "the schema"))
    assert schemas is not None
    if not schemas or not all(isinstance(number, int) and 0 <= number < 2**32 for number in schemas):
        raise DefinitionError(f"avro: schemas {list(schemas)!r} are not by the registry's ids, such as {{7: ...}}")
    return Avro(tuple(sorted((number, canonical(one, f"schema {number}")) for number, one in schemas.items())))
