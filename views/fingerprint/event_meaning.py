"""The meaning of an event type: its fields, and the code that runs when an event is constructed."""

import enum
from functools import lru_cache
from types import FunctionType
from typing import Any, get_args

import msgspec
import pyarrow as pa

from tandem.views.fingerprint.code_dependencies import code_of_classes, code_of_function
from tandem.views.fingerprint.part_tree import Meaning, version_of
from tandem.views.source.event import Field, event_fields
from tandem.views.time_zone import ZONES


@lru_cache(maxsize=1024)
def event_meaning(event: type[msgspec.Struct]) -> Meaning:
    """An event type, with the code that runs when an event is constructed."""
    fields, name = event_fields(event), f"event type {event.__name__}"
    shape = _struct(name, event, fields, f"{name}: field ")
    return Meaning(name, parts={"fields": shape, "code": Meaning(f"{name}: code", parts=code_of_classes(_types(event, fields)))})


def _struct(name: str, struct: type[msgspec.Struct], fields: tuple[Field, ...], place: str) -> Meaning:
    config = struct.__struct_config__
    options = {
        "array_like": config.array_like,
        "forbid_unknown_fields": config.forbid_unknown_fields,
        "tag_field": config.tag_field,
        "tag": config.tag,
    }
    given = [f"{option}={value!r}" for option, value in options.items() if value]
    return Meaning(
        name,
        options,
        ", ".join(given) or "no options",
        {field.key: _field(field, f"{place}{field.key!r}") for field in fields},
        order=tuple(field.key for field in fields) if config.array_like else (),
    )


def _field(field: Field, name: str) -> Meaning:
    """A field, or what a list or map holds."""
    default = field.default._value_ if isinstance(field.default, enum.Enum) else field.default
    value = {
        "name": field.name,
        "type": _type(field),
        "optional": field.optional,
        "required": field.required,
        "constraints": repr(field.constraints),
        "default": repr(default),
    }
    parts: dict[str, Meaning] = {}
    if field.items is not None:
        parts["items"] = _field(field.items, f"{name}, its items")
    if field.fields:
        parts["fields"] = _struct(name, field.type, field.fields, f"{name}, field ")
    if field.factory is not msgspec.NODEFAULT:
        parts["factory"] = _factory(f"{name}, its default", field.factory)
    if field.notation is not None:
        parts["notation"] = Meaning(f"{name}, how its times are written", repr(field.notation), str(field.notation))
        if field.notation.zone is not None:
            parts[f"{ZONES}=="] = version_of(ZONES)
    limits = ", ".join(f"{constraint} {limit!r}" for constraint, limit in field.constraints)
    text = _written_type(field) + (f" ({limits})" if limits else "")
    text += f" = {default!r}" if default is not msgspec.NODEFAULT else ""
    text += f", named {field.name}" if field.name != field.key else ""
    return Meaning(name, value, text, parts, notes={"doc": field.doc, "unit": field.unit})


def _type(field: Field) -> list[Any]:
    """The type without the items of a list or map and the fields of a struct, which are parts of their own."""
    if field.items is not None:
        return ["map" if field.type is dict else "list"]
    if field.fields:
        return ["struct"]
    if isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        return ["choice", sorted(repr(member.value) for member in field.type)]
    if values := get_args(field.type):
        return ["choice", sorted(repr(value) for value in values)]
    return [field.type.__name__, str(field.arrow), *([field.rounding] if field.rounding else [])]


def _written_type(field: Field) -> str:
    """The type as an event type declares it; an enum by its values."""
    kind, *values = _type(field)
    if field.items is not None:
        kind = f"{'dict[str, ' if field.type is dict else 'list['}{_written_type(field.items)}]"
    elif kind == "choice":
        kind = f"one of {', '.join(values[0])}"
    elif pa.types.is_decimal(field.arrow):
        kind = f"Decimal of {field.arrow.scale} digits" + (f", rounded {field.rounding}" if field.rounding else "")
    elif field.fields:
        kind = field.type.__name__
    return f"{kind} | None" if field.optional else kind


def _factory(name: str, factory: Any) -> Meaning:
    if isinstance(factory, FunctionType):
        return Meaning(name, parts=code_of_function(factory))
    return Meaning(name, repr(factory()), repr(factory()))


def _types(struct: type[msgspec.Struct], fields: tuple[Field, ...]) -> list[type]:
    """The struct and every struct and enum below it: the classes whose methods decoding may call."""
    found: list[type] = [struct]
    for field in fields:
        inner = field
        while inner.items is not None:
            inner = inner.items
        if inner.fields:
            found += _types(inner.type, inner.fields)
        elif isinstance(inner.type, type) and issubclass(inner.type, enum.Enum):
            found.append(inner.type)
    return found
