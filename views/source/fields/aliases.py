"""Fields with any key in a format: `Annotated[float, Name("US Gross")]`.

msgspec reads a key by the name that a class statement gives it. Values with other keys are read as a mirror of the event type, a
struct with the same fields under the keys of the annotations, and become the event by attributes.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from tandem.views.source.event import Event, Field, event_fields

Decode = Callable[[bytes], Any]
Values = Mapping[str, Any]


def json_decode(event: type[Event]) -> Decode:
    """The function from JSON to the event, which raises what msgspec raises."""
    if not has_aliases(event):
        return msgspec.json.Decoder(event).decode
    decode = msgspec.json.Decoder(_mirror(event)).decode
    return lambda value: msgspec.convert(decode(value), event, from_attributes=True)


@lru_cache(maxsize=4096)
def has_aliases(event: type[Event]) -> bool:
    """Whether an annotation names a field of the event type, or of a struct in it."""
    return any(map(_is_alias, event_fields(event)))


def values_by_attribute(event: type[Event], values: Values) -> Values:
    """Values by the keys of a format as msgspec reads them: by the names that the class statement gives."""
    return _by_attribute(event_fields(event), values) if has_aliases(event) else values


def _is_alias(field: Field) -> bool:
    inner = field.fields or ((field.items,) if field.items is not None else ())
    return field.key != field.encode_name or any(map(_is_alias, inner))


def _by_attribute(fields: tuple[Field, ...], values: Values) -> Values:
    return {field.encode_name: _value(field, values[field.key]) for field in fields if field.key in values}


def _value(field: Field, value: Any) -> Any:
    if isinstance(value, list) and field.items is not None:
        return [_value(field.items, item) for item in value]
    if isinstance(value, dict) and field.items is not None:
        return {key: _value(field.items, item) for key, item in value.items()}
    return _by_attribute(field.fields, value) if isinstance(value, dict) and field.fields else value


@lru_cache(maxsize=1024)
def _mirror(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    config = struct.__struct_config__
    infos = msgspec.structs.fields(struct)
    return msgspec.defstruct(
        struct.__name__,
        [(info.name, _mirror_type(info.type), _default(info)) for info in infos],
        rename={info.name: field.key for info, field in zip(infos, event_fields(struct), strict=True)},
        kw_only=True,
        array_like=config.array_like,
        tag=config.tag,
        tag_field=config.tag_field,
        forbid_unknown_fields=config.forbid_unknown_fields,
    )


def _mirror_type(annotation: Any) -> Any:
    inner = get_args(annotation)
    if get_origin(annotation) is Annotated:
        return Annotated[(_mirror_type(inner[0]), *inner[1:])]
    if get_origin(annotation) is list:
        return list[_mirror_type(inner[0])]  # type: ignore[misc]  # computed
    if get_origin(annotation) is dict:
        return dict[str, _mirror_type(inner[1])]  # type: ignore[misc]  # computed
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return _mirror(annotation)
    if inner and any(isinstance(part, type) and part is type(None) for part in inner):
        return Union[tuple(map(_mirror_type, inner))]  # noqa: UP007  computed
    return annotation


def _default(info: msgspec.structs.FieldInfo) -> Any:
    if info.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=info.default_factory)
    return msgspec.field(default=info.default)
