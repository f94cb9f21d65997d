"""The types of fields by a JSON Schema: required members, formats and enums are as the schema declares them."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from tandem.cli.project.infer.field_type import STRUCT, FieldType
from tandem.cli.project.infer.schemas.schema_parts import array_of, choices, map_of
from tandem.views.errors import TandemError

_SCALARS: Final = {
    "boolean": FieldType("truth", "bool"),
    "integer": FieldType("integer", "int"),
    "number": FieldType("double", "float"),
    "string": FieldType("text", "str"),
}
_FORMATS: Final = {
    "date-time": FieldType("time", "datetime"),
    "date": FieldType("date", "date"),
    "uuid": FieldType("text", "UUID"),
    "duration": FieldType("other", "timedelta"),
}
_MOST_REFERENCES: Final = 20


def json_schema_columns(text: str) -> dict[str, FieldType]:
    """The types of an object's members. Raises TandemError for a schema of another type."""
    root = json.loads(text)
    schema = _resolve(root, root) if isinstance(root, dict) else {}
    if not isinstance(schema.get("properties"), dict):
        raise TandemError(
            "the JSON schema is not of an object with properties, which are the fields of an event", code="file-unusable"
        )
    return _members(schema, root, ())


def _members(schema: Mapping[str, Any], root: Mapping[str, Any], outer: tuple[int, ...]) -> dict[str, FieldType]:
    required = schema.get("required", ())
    inner = (*outer, id(schema))
    return {
        name: replace(of, absent=name not in required)
        for name, part in schema["properties"].items()
        if (of := _type(part if isinstance(part, dict) else {}, root, inner))
    }


def _type(part: Mapping[str, Any], root: Mapping[str, Any], outer: tuple[int, ...]) -> FieldType:
    schema = _resolve(part, root)
    several = schema.get("oneOf") or schema.get("anyOf")
    if several:
        others = [each for each in several if each.get("type") != "null"]
        if len(others) != 1:
            return FieldType("other", "", "the schema allows several types")
        return replace(_type(others[0], root, outer), missing=len(others) < len(several))
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else list(kinds)
    missing = "null" in kinds
    kinds = [kind for kind in kinds if kind != "null"]
    values = [value for value in schema.get("enum", ()) if value is not None]
    if values and all(isinstance(value, str) for value in values):
        return replace(choices(values), missing=missing or None in schema["enum"])
    if len(kinds) != 1:
        return FieldType("other", "", "the schema allows several types" if kinds else "the schema declares no type")
    return replace(_of_kind(kinds[0], schema, root, outer), missing=missing)


def _of_kind(kind: str, schema: Mapping[str, Any], root: Mapping[str, Any], outer: tuple[int, ...]) -> FieldType:
    match kind:
        case "object" if id(schema) in outer:
            return FieldType("other", "", "the schema contains itself here")
        case "object" if isinstance(schema.get("properties"), dict):
            return FieldType("struct", STRUCT, members=tuple(_members(schema, root, outer).items()))
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            return map_of(_type(schema["additionalProperties"], root, outer))
        case "array" if isinstance(schema.get("items"), dict):
            return array_of(_type(schema["items"], root, outer))
        case "string":
            return _FORMATS.get(str(schema.get("format")), _SCALARS[kind])
    return _SCALARS.get(kind) or FieldType("other", "", f"the schema does not declare what the {kind} holds")


def _resolve(part: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema to which a part refers in its own document."""
    for _ in range(_MOST_REFERENCES):
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return part
        place: Any = root if reference.startswith("#/") else {}
        for step in reference[2:].split("/"):
            place = place.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(place, dict) else {}
        part = place if isinstance(place, dict) else {}
    return {}
