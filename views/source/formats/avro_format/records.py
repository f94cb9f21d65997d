"""What Avro's decoder needs fastavro for: checks of schemas, and values as records."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from fastavro import parse_schema

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import named_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.avro_format.logical_types import valid_decimal
from tandem.views.source.formats.avro_format.readers import AvroReaders, items_reader, whole_reader
from tandem.views.source.formats.avro_format.skip import BrokenItem, each_item, resolved, takes_no_bytes


def canonical(schema: str | Mapping[str, Any] | list[Any], which: str) -> str:
    """The schema as canonical JSON: equal for schemas that differ only in order, white space and documentation.

    Raises DefinitionError for a schema that no source may have.
    """
    try:
        loaded = json.loads(schema) if isinstance(schema, str) else schema
        parsed, names = parsed_schema(loaded)
    except Exception as error:
        raise DefinitionError(f"avro: {which} is not an Avro schema: {type(error).__name__}: {error}") from error
    if not _has_records(parsed, names):
        raise DefinitionError(f"avro: {which} is not a record, whose fields have names, nor a union or an array with records")
    for name, named_type in names.items():
        if (repeated := _twin_member(named_type)) is not None:
            raise DefinitionError(f"avro: {which}: record {name} has two fields {repeated!r}; give each field a name of its own")
        if _holds_itself(named_type, names):
            raise DefinitionError(f"avro: {which}: every {name} contains itself, so no value ends")
    return json.dumps(_without(loaded, ("doc",)), sort_keys=True, separators=(",", ":"))


def parsed_schema(loaded: Any) -> tuple[Any, dict[str, Any]]:
    """The schema and its named types. Defaults are for readers of other schemas, and decide nothing here."""
    names: dict[str, Any] = {}
    return parse_schema(_without(_valid(loaded), ("doc", "default")), names), names


def _is_array(parsed: Any) -> bool:
    return isinstance(parsed, dict) and parsed["type"] == "array"


def _has_records(parsed: Any, names: Mapping[str, Any]) -> bool:
    """Whether values are records, or an array of them; or of a union with a record."""
    item = parsed["items"] if _is_array(parsed) else parsed
    return any(resolved(branch, names)["type"] == "record" for branch in (item if isinstance(item, list) else [item]))


def _without(schema: Any, keys: tuple[str, ...]) -> Any:
    if isinstance(schema, Mapping):
        return {key: _without(value, keys) for key, value in schema.items() if key not in keys}
    return [_without(one, keys) for one in schema] if isinstance(schema, list | tuple) else schema


def _valid(schema: Any) -> Any:
    """The schema without annotations of decimals that fastavro refuses; the specification ignores an invalid logical type."""
    if isinstance(schema, list | tuple):
        return [_valid(one) for one in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: _valid(value) for key, value in schema.items()}
    return inner if schema.get("logicalType") != "decimal" or valid_decimal(schema) else _without(inner, ("logicalType",))


def _holds_itself(named_type: Mapping[str, Any], names: Mapping[str, Any]) -> bool:
    """Whether a record has a field of its own type, or a record in it has, without a union between."""
    left, visited = _member_types(named_type), set[str]()
    while left:
        item = left.pop()
        record = {} if isinstance(item, list) else resolved(item, names)
        if record.get("type") == "record" and record["name"] not in visited:  # a schema of n records may have 2**n paths
            visited.add(record["name"])
            left.extend(_member_types(record))
    return named_type["name"] in visited


def _member_types(named_type: Mapping[str, Any]) -> list[Any]:
    return [member["type"] for member in named_type.get("fields", ())]


def _twin_member(named_type: Mapping[str, Any]) -> str | None:
    """The first name that two fields of a record have."""
    members = [member["name"] for member in named_type.get("fields", ())]
    return next((name for name in members if members.count(name) > 1), None)


def reader(
    event: type[Event], schema: str, which: str, *, listed: bool, fields: tuple[Field, ...] = ()
) -> Callable[[bytes], Any]:
    """A function from one value to a record's values by name, or to a list of those.

    `which` names the schema in errors; `fields` are those to read, if they are not the event type's. Raises DefinitionError if
    the schema does not give the fields, or is an array unless `listed`.
    """
    parsed, names = parsed_schema(json.loads(schema))
    is_array = _is_array(parsed)
    if listed and not is_array:
        raise DefinitionError(
            f"avro: {which} is a record, which is one event; a source with max_events_per_record=... takes an array of records"
        )
    if not listed and is_array:
        raise DefinitionError(
            f"avro: {which} is an array, which is several events; say how many a value holds at most: max_events_per_record=..."
        )
    item = parsed["items"] if is_array else parsed
    if listed and takes_no_bytes(item, names):
        raise DefinitionError(f"avro: {which} has items of zero bytes, of which a short value may hold any number")
    read = AvroReaders(names, which).events(fields or named_fields(event, "an Avro record"), item, event.__name__)
    read_one = whole_reader(read, item, names)
    if not listed:
        return read_one
    read_all = whole_reader(items_reader(read), parsed, names)

    def items_of(value: bytes) -> Any:
        try:
            return read_all(value)
        except Reject as reject:
            items = each_item(value, item, names, read_one)
            if not any(isinstance(item, BrokenItem) for item in items):
                raise reject from None
            return items

    return items_of
