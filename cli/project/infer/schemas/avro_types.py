"""The types of fields by an Avro schema: nulls, logical types and enums are as the schema declares them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tandem.cli.project.infer.field_type import STRUCT, FieldType
from tandem.cli.project.infer.schemas.schema_parts import array_of, choices, map_of
from tandem.views.errors import TandemError

_SCALARS: Final = {
    "boolean": FieldType("truth", "bool"),
    "int": FieldType("integer", "int"),
    "long": FieldType("integer", "int"),
    "float": FieldType("double", "float"),
    "double": FieldType("double", "float"),
    "string": FieldType("text", "str"),
    "bytes": FieldType("other", "bytes"),
    "fixed": FieldType("other", "bytes"),
}
_LOGICAL: Final = {
    "date": FieldType("date", "date"),
    "uuid": FieldType("text", "UUID"),
    "time-millis": FieldType("other", "time"),
    "time-micros": FieldType("other", "time"),
    "duration": FieldType("other", "timedelta"),
    **{f"timestamp-{unit}": FieldType("time", "datetime") for unit in ("millis", "micros", "nanos")},
}


def avro_columns(text: str, zone: str | None) -> dict[str, FieldType]:
    """The types of a record's fields. Raises TandemError for a schema of another type."""
    schema = json.loads(text)
    names: dict[str, Any] = {}
    root = _schema_of(schema[-1] if isinstance(schema, list) else schema, names)
    for other in schema if isinstance(schema, list) else ():
        _schema_of(other, names)
    if not isinstance(root, dict) or root.get("type") != "record":
        raise TandemError("the Avro schema is not a record, which has the fields of an event", code="file-unusable")
    return _members(root, names, (), zone)


def _members(record: Mapping[str, Any], names: dict[str, Any], outer: tuple[str, ...], zone: str | None) -> dict[str, FieldType]:
    inner = (*outer, str(record.get("name")))
    return {field["name"]: _type(field["type"], names, inner, zone) for field in record["fields"]}


def _type(schema: Any, names: dict[str, Any], outer: tuple[str, ...], zone: str | None) -> FieldType:
    schema = _schema_of(schema, names)
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            return FieldType("other", "", "the schema allows several types")
        return replace(_type(others[0], names, outer, zone), missing="null" in schema)
    plain: dict[str, Any] = schema if isinstance(schema, dict) else {"type": schema}
    kind = plain.get("type")
    if isinstance(kind, dict | list):
        return _type(kind, names, outer, zone)
    match kind:
        case "record" if plain.get("name") in outer:
            return FieldType("other", "", "the schema contains itself here")
        case "record":
            return FieldType("struct", STRUCT, members=tuple(_members(plain, names, outer, zone).items()))
        case "array":
            return array_of(_type(plain["items"], names, outer, zone))
        case "map":
            return map_of(_type(plain["values"], names, outer, zone))
        case "enum":
            return choices(plain["symbols"])
    return _scalar(str(kind), plain, zone)


def _scalar(kind: str, schema: Mapping[str, Any], zone: str | None) -> FieldType:
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return FieldType("decimal", f"Annotated[Decimal, Scale({schema.get('scale', 0)})]")
    if isinstance(logical, str) and logical.startswith("local-timestamp"):
        guess = "" if zone else "the schema has no zone: UTC is a guess"
        return FieldType("time", f'Annotated[datetime, Zone("{zone or "UTC"}")]', guess)
    return _LOGICAL.get(str(logical)) or _SCALARS.get(kind) or FieldType("other", "", f"no field has the type {kind}")


def _schema_of(schema: Any, names: dict[str, Any]) -> Any:
    """The schema, in place of its name; it is remembered if it has one."""
    if isinstance(schema, str):
        return names.get(schema, schema)
    if isinstance(schema, dict) and schema.get("type") in ("record", "enum", "fixed"):
        name, space = str(schema.get("name")), schema.get("namespace")
        names |= {name: schema, f"{space}.{name}" if space else name: schema}
    return schema
