"""Every setting with its name in docs, checks and variables."""

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec

from tandem.infra.settings.settings import Settings

PREFIX: Final = "TANDEM_"


class Key(NamedTuple):
    """One documented key: its dotted name, variable, type as written, default and meaning."""

    name: str
    variable: str
    type: str
    default: object
    meaning: str


def keys() -> Iterator[Key]:
    """Every key, in the order of the file."""
    return _keys(Settings, "")


def _keys(struct: type[msgspec.Struct], section: str) -> Iterator[Key]:
    for field in msgspec.structs.fields(struct):
        if isinstance(field.default, msgspec.Struct):
            yield from _keys(type(field.default), f"{section}{field.name}.")
        else:
            yield _key(field, section)


def _key(field: msgspec.structs.FieldInfo, section: str) -> Key:
    info = msgspec.inspect.type_info(field.type)
    meta = (info.extra_json_schema or {}) if isinstance(info, msgspec.inspect.Metadata) else {}
    plain = info.type if isinstance(info, msgspec.inspect.Metadata) else info
    match plain:
        case msgspec.inspect.IntType():
            kind = "integer"
        case msgspec.inspect.BoolType():
            kind = "true / false"
        case msgspec.inspect.DictType():
            kind = "table"
        case msgspec.inspect.LiteralType(values=values):
            kind = " / ".join(map(str, values))
        case _:
            kind = "string"
    name = section + field.name
    default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
    return Key(name, PREFIX + name.replace(".", "_").upper(), kind, default, meta.get("description", ""))
