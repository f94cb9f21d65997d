"""How event types may evolve: whether a source still reads the records of its published event type.

| change of what is published                                  | its records              |
| ------------------------------------------------------------ | ------------------------ |
| a field added that has a default                             | are read, by the default |
| int to float; Enum or Literal with more values, or to str or int | are read             |
| T to Optional[T]; a default added; a constraint taken off, or wider | are read          |
| Zone added to a datetime                                     | are read                 |
| the same inside structs and lists                            | are read                 |
| anything else                                                | are not, by rule         |

* The rules are about records of the published shape. An unknown field, ignored before, is read by its type once the event has it.
* The rules do not cover code: the project answers for what its decoder functions and `__post_init__` make of old records.
* A change that the rules forbid is allowed with a Version of the published shape, or a version that reads it by these rules.
"""

import ast
import enum
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain, zip_longest
from math import inf
from types import FunctionType
from typing import Any, Final, get_args

import msgspec

from tandem.views.errors import DefinitionError
from tandem.views.project.project import Project
from tandem.views.project.python_code import parsed
from tandem.views.source.decoder import Decoder, decoder_name
from tandem.views.source.event import Event, Field, event_fields
from tandem.views.source.formats.avro import Avro
from tandem.views.source.formats.change_events.debezium_avro import DebeziumAvro
from tandem.views.source.formats.protobuf import Protobuf
from tandem.views.source.source import Source
from tandem.views.source.time_notation import Notation

_WAY_OUT: Final = (
    "allowed are added fields with a default and wider types (int to float, more values to choose from, Optional); anything else "
    "takes a version of the published shape in Source(versions=(Version(OldEvent, upgrade),))"
)


def refuse_breaks(published: Project, working: Project) -> None:
    """Raise DefinitionError if a source of `working` does not read all records that it reads as published."""
    found = [
        f"{_place(working, source.event)}: source {name!r}: {sentence}"
        for name, source in working.sources.items()
        if name in published.sources
        for sentence in breaks(published.sources[name], source)
    ]
    if found:
        raise DefinitionError(f"{'; '.join(found)}: {_WAY_OUT}")


def breaks(published: Source, source: Source) -> list[str]:
    """Why a source does not read every record of a published one; empty if it or one of its versions does."""
    (newest, *older), readings = _readings(published), _readings(source)
    found = []
    if not any(_reads(newest, reading) for reading in readings):
        found += [*_decoder_breaks(newest[1], source.decoder), *differences(newest[0], source.event)]
    found += [
        f"version {event.__name__} of the published source is no longer among its versions"
        for event, decoder in older
        if not any(_reads((event, decoder), reading) for reading in readings)
    ]
    return found + _shared_identities(published, source)


def differences(published: type[msgspec.Struct], event: type[msgspec.Struct]) -> list[str]:
    """What an event type does not read of a published one's records, a sentence for each part; empty if it reads all."""
    return list(_struct(published, event_fields(published), event, event_fields(event), event.__name__))


def _readings(source: Source) -> list[tuple[type[Event], Decoder]]:
    """The shapes that a source reads, the newest first."""
    return [(source.event, source.decoder), *((version.event, version.decoder) for version in source.versions)]


def _reads(published: tuple[type[Event], Decoder], reading: tuple[type[Event], Decoder]) -> bool:
    return not _decoder_breaks(published[1], reading[1]) and not differences(published[0], reading[0])


def _decoder_breaks(published: Decoder, decoder: Decoder) -> list[str]:
    if isinstance(decoder, FunctionType) or decoder == published:
        return []
    if isinstance(published, Avro) and isinstance(decoder, Avro) and _schemas(published) <= _schemas(decoder):
        return []
    if isinstance(published, DebeziumAvro) and isinstance(decoder, DebeziumAvro) and published.before == decoder.before:
        return [] if {*published.schemas} <= {*decoder.schemas} else ["decoder debezium lacks a schema that is published"]
    if isinstance(published, Protobuf) and isinstance(decoder, Protobuf) and published.message == decoder.message:
        return []  # Protobuf's own rules decide how a message may evolve, by the numbers of its fields
    if decoder_name(published) == decoder_name(decoder):
        return [f"decoder {decoder_name(decoder)} has other parameters than what is published"]
    return [f"decoder {decoder_name(published)} became {decoder_name(decoder)}"]


def _schemas(decoder: Avro) -> set[object]:
    return {decoder.schemas} if isinstance(decoder.schemas, str) else set(decoder.schemas)


def _shared_identities(published: Source, source: Source) -> list[str]:
    """New fields with a default in the identity or as event time: all old events would be duplicates, or have one time."""
    known = {field.key for field in event_fields(published.event)}
    fields = {field.name: field for field in event_fields(source.event)}
    return [
        f"{source.event.__name__}.{name} is new and has a default, which would be the {role} of every published record"
        for role, names in (("identity", source.identity), ("event time", (source.event_time.split(".")[0],)))
        for name in names
        if name in fields and fields[name].key not in known and not fields[name].required
    ]


def _struct(
    old: type[msgspec.Struct], old_fields: Sequence[Field], new: type[msgspec.Struct], new_fields: Sequence[Field], place: str
) -> Iterator[str]:
    was, now = old.__struct_config__, new.__struct_config__
    if was.array_like != now.array_like:
        yield f"{place} is {'an array' if now.array_like else 'an object'} and was not"
        return
    if now.forbid_unknown_fields and not was.forbid_unknown_fields:
        yield f"{place} forbids unknown fields, which it ignored"
    if (was.tag_field, was.tag) != (now.tag_field, now.tag):
        yield f"{place} has the tag {now.tag!r}; it was {was.tag!r}"
    if now.array_like:
        pairs = list(zip_longest(old_fields, new_fields))
    else:
        by_key = {field.key: field for field in new_fields}
        pairs = [(field, by_key.pop(field.key, None)) for field in old_fields] + [(None, field) for field in by_key.values()]
    for before, after in pairs:
        yield from _field(before, after, place)


def _field(old: Field | None, new: Field | None, place: str) -> Iterator[str]:
    """One field of a struct, None where it has none."""
    if new is None:
        assert old is not None
        yield f"{place}.{old.name} is removed"
    elif old is None:
        if new.required:
            yield f"{place}.{new.name} is new and has no default, and published records lack it; give it one, such as = None"
    elif old.key != new.key:
        yield f"{place}: {new.key} stands where {old.key} stood"
    else:
        if new.required and not old.required:
            yield f"{place}.{new.name} no longer has a default, and published records may lack it"
        yield from _value(old, new, f"{place}.{new.name}")


def _value(old: Field, new: Field, place: str) -> Iterator[str]:
    """What a field, an element of a list or a value of a map may hold."""
    if old.optional and not new.optional:
        yield f"{place} may no longer be null"
    if old.items is not None and new.items is not None and old.type is new.type:
        yield from _value(old.items, new.items, f"{place}[]")
    elif old.fields and new.fields:
        yield from _struct(old.type, old.fields, new.type, new.fields, place)
    elif not _takes(old, new):
        yield f"{place} is {_written(new)} and was {_written(old)}"
    if new.notation != old.notation and not _adds_zone(old.notation, new.notation):
        yield f"{place} is written as {_notation(new)} and was as {_notation(old)}"
    for name, value in new.constraints:
        if not _implied(name, value, dict(old.constraints)):
            yield f"{place} has {name}={value!r}, which published records need not keep"


def _adds_zone(old: Notation | None, new: Notation | None) -> bool:
    """Whether texts of ISO 8601 with a zone are read as before, and others as well."""
    return old is None and new is not None and new.zone is not None and new.format is None


def _notation(field: Field) -> str:
    return str(field.notation or "ISO 8601 with a zone")


def _takes(old: Field, new: Field) -> bool:
    """Whether every value of a type that is not a list or struct is one of another's."""
    if old.items is not None or new.items is not None or old.fields or new.fields:
        return False
    before, after = _choices(old), _choices(new)
    if after is not None:
        return before is not None and before <= after and (not _is_open(old) or _is_open(new))
    if before is not None and _is_open(old):
        return False
    kind = old.type if before is None else type(next(iter(before)))
    if old.rounding is not None and new.rounding != old.rounding:
        return False  # what was rounded would be a reject
    return (kind is new.type and old.arrow == new.arrow) or (kind is int and new.type is float)


def _choices(field: Field) -> frozenset[Any] | None:
    """The values of an Enum or Literal; None of any other type."""
    if isinstance(field.type, type) and issubclass(field.type, enum.Enum):
        return frozenset(member.value for member in field.type)
    return frozenset(get_args(field.type)) or None


def _is_open(field: Field) -> bool:
    """Whether the type's own code makes one of its values of any other."""
    return isinstance(field.type, type) and any("_missing_" in vars(one) for one in field.type.__mro__ if one is not enum.Enum)


def _implied(name: str, value: Any, old: dict[str, Any]) -> bool:
    """Whether the old constraints keep a new one."""
    match name:
        case "gt":
            return bool(old.get("gt", -inf) >= value or old.get("ge", -inf) > value)
        case "ge":
            return bool(old.get("gt", -inf) >= value or old.get("ge", -inf) >= value)
        case "lt":
            return bool(old.get("lt", inf) <= value or old.get("le", inf) < value)
        case "le":
            return bool(old.get("lt", inf) <= value or old.get("le", inf) <= value)
        case "min_length":
            return bool(old.get(name, 0) >= value)
        case "max_length":
            return bool(old.get(name, inf) <= value)
        case "tz":
            return True  # every datetime has a zone
    return bool(old.get(name) == value)


def _written(field: Field) -> str:
    """A type as a person would write it."""
    if field.items is not None:
        text = f"{'dict[str, ' if field.type is dict else 'list['}{_written(field.items)}]"
    elif choices := _choices(field):
        text = f"one of {', '.join(map(repr, sorted(choices)))}"
    elif field.type is Decimal:
        text = f"Decimal with Scale({field.arrow.scale}{f', rounding={field.rounding!r}' if field.rounding else ''})"
    else:
        text = field.type.__name__
    return f"{text} or null" if field.optional else text


def _place(project: Project, event: type[Event]) -> str:
    """`file:line` of an event type; the file alone if no class statement there has its name."""
    base = event.__module__.replace(".", "/")
    path = next((path for path in (f"{base}.py", f"{base}/__init__.py") if path in project.files), None)
    if path is None:
        return event.__module__
    classes = [node for node in ast.walk(parsed(project.files[path])) if isinstance(node, ast.ClassDef)]
    return next(chain((f"{path}:{node.lineno}" for node in classes if node.name == event.__name__), (path,)))
