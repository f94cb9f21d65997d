"""What the decoder of Protocol Buffers needs Google's protobuf for: the described message type, and events from its messages."""

from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import date, datetime, time, timedelta
from functools import cache, partial
from operator import attrgetter
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from tandem.views.errors import DefinitionError, listed
from tandem.views.instant import EPOCH
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.clock_values import clock_time
from tandem.views.source.fields.named_fields import Kind, advice, builder, fields_to_unnest, item_values, named_fields, takes
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.times import value_reader
from tandem.views.source.format import Listed, Parse, Unnest

Read = Callable[[Any], Any]

_MESSAGES: Final[dict[str, Kind]] = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "google.type.Date": "date",
    "google.type.TimeOfDay": "time_of_day",
}
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Bool", "Bytes", "Double", "Float", "Int32", "Int64", "String", "UInt32", "UInt64")
)
"""Messages of one value, with which a field may be absent."""
_NANOS: Final = 1_000_000_000
_KINDS: Final[dict[int, Kind]] = {
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    **dict.fromkeys(
        (
            FieldDescriptor.CPPTYPE_INT32,
            FieldDescriptor.CPPTYPE_INT64,
            FieldDescriptor.CPPTYPE_UINT32,
            FieldDescriptor.CPPTYPE_UINT64,
        ),
        "integer",
    ),
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_DOUBLE: "float",
    FieldDescriptor.CPPTYPE_ENUM: "enum",
}


def parser(event: type[Event], descriptor: bytes, name: str) -> Parse:
    """A function from one message of the named type to one event.

    Raises DefinitionError for an invalid descriptor, an unknown type, or if messages lack what the event type needs.
    """
    read = _reader(named_fields(event, "a message"), descriptor, name, event.__name__)
    build = builder(event)  # `_single` reads the texts
    return lambda value: build(read(value))


def unnest(event: type[Event], place: Unnest, descriptor: bytes, name: str) -> Listed:
    """Messages of the named type with a repeated field or map, of which each item is an event. Raises as `parser` does."""
    named_fields(event, "a message")
    fields, several = fields_to_unnest(event, place)
    read = _reader(fields, descriptor, name, event.__name__)
    return Listed(lambda value: item_values(read(value), several), builder(event))


def _reader(fields: tuple[Field, ...], descriptor: bytes, name: str, place: str) -> Callable[[bytes], dict[str, Any]]:
    """The function from one value to its message's values of these fields, by key."""
    described = _described(descriptor, name)
    read = _message(fields, described, place)
    message = GetMessageClass(described)

    @cache
    def loose_reader() -> tuple[Any, Read] | None:
        try:
            loosened = _described(_loose_descriptor(descriptor, name, fields), name)
            return GetMessageClass(loosened), _message(fields, loosened, place)
        except DefinitionError:  # a type that is read in one place, and not in another
            return None

    def parse(value: bytes) -> dict[str, Any]:
        try:
            values: dict[str, Any] = read(message.FromString(value))
        except DecodeError as error:
            reject = Reject("format", f"not a {name}: {error}")
            if (reading := loose_reader()) is None:
                raise reject from error
            try:
                values = reading[1](reading[0].FromString(value))
            except DecodeError:
                raise reject from error
        return values

    return parse


def _loose_descriptor(descriptor: bytes, name: str, fields: Sequence[Field]) -> bytes:
    """The descriptor with bytes in place of the texts and messages that no field reads, whose UTF-8 then decides nothing."""
    described = FileDescriptorSet.FromString(descriptor)
    types: dict[str, DescriptorProto] = {}

    def name_types(prefix: str, messages: Iterable[DescriptorProto]) -> None:
        for each in messages:
            types[f"{prefix}.{each.name}"] = each
            name_types(f"{prefix}.{each.name}", each.nested_type)

    def loosen(message: str, read: Sequence[Field]) -> None:
        keys = {field.key: field for field in read}
        for each in types[message].field if message in types else ():
            field = keys.get(each.name)
            if field is None and each.type in (each.TYPE_STRING, each.TYPE_MESSAGE):
                each.type = each.TYPE_BYTES
                each.ClearField("type_name")
            elif field is not None and (inner := field.fields or (field.items.fields if field.items else ())):
                loosen(each.type_name, inner)

    for file in described.file:
        name_types(f".{file.package}" if file.package else "", file.message_type)
    loosen(f".{name}", fields)
    content: bytes = described.SerializeToString()
    return content


def message_at(descriptor: bytes, place: Sequence[int]) -> str:
    """The full name of a message type of the last file: its number, then those in it. Raises DefinitionError, Reject."""
    try:
        file = FileDescriptorSet.FromString(descriptor).file[-1]
    except (DecodeError, IndexError) as error:
        raise DefinitionError(f"not a FileDescriptorSet: {error}") from error
    names, types = [file.package] if file.package else [], file.message_type
    for number in place:
        if not 0 <= number < len(types):
            raise Reject("schema", f"the schema has no message {'.'.join(map(str, place))}, counted from 0")
        names.append(types[number].name)
        types = types[number].nested_type
    return ".".join(names)


def _described(descriptor: bytes, message: str) -> Any:
    pool = DescriptorPool()
    try:
        files = FileDescriptorSet.FromString(descriptor).file
        for file in files:
            pool.AddSerializedFile(file.SerializeToString())
    except (DecodeError, TypeError) as error:
        raise DefinitionError(
            f"protobuf: the descriptor is not a FileDescriptorSet with all imports, as protoc --include_imports makes: {error}"
        ) from error
    try:
        return pool.FindMessageTypeByName(message)
    except KeyError:
        have = [f"{file.package}.{one.name}".removeprefix(".") for file in files for one in file.message_type]
        raise DefinitionError(f"protobuf: the descriptor has no message {message!r}; messages: {listed(message, have)}") from None


def _message(fields: tuple[Field, ...], described: Descriptor, place: str) -> Read:
    """The function from a message to its fields' values by key."""
    there = described.fields_by_name
    same: dict[str, str] = {}
    """The names in the message of fields whose values need nothing more, by key."""
    parts = []
    for field in fields:
        inside = f"{place}.{field.name}"
        if field.key in there:
            sent = there[field.key]
            value = _value(field, sent, inside)
            if value is _identity and not sent.has_presence:
                same[field.key] = sent.name
            else:
                parts.append((field.key, sent.name, sent.has_presence, field.required and field.optional, value))
        elif field.required:
            have = listed(field.key, there.keys())
            raise DefinitionError(f"{inside}: message {described.full_name} has no field {field.key!r}; fields: {have}")

    keys, get = tuple(same), _getter(same.values())

    def read(message: Any) -> dict[str, Any]:
        values = dict(zip(keys, get(message), strict=True))
        for key, name, may_be_absent, null, value in parts:
            if not may_be_absent or message.HasField(name):
                values[key] = value(getattr(message, name))
            elif null:
                values[key] = None
        return values

    return read


def _getter(names: Collection[str]) -> Callable[[Any], tuple[Any, ...]]:
    """The function from a message to its fields of these names."""
    if len(names) < 2:
        return lambda message: tuple(getattr(message, name) for name in names)
    return attrgetter(*names)


def _value(field: Field, sent: FieldDescriptor, place: str) -> Read:
    if not sent.is_repeated:
        return _single(field, sent, place)
    if field.items is None or (field.type is dict) != _is_map(sent):
        raise _misfit(field, sent, place)
    if field.type is dict:
        return _map(field.items, sent, place)
    item = _single(field.items, sent, f"{place}[]")
    return lambda items: [item(one) for one in items]


def _is_map(sent: FieldDescriptor) -> bool:
    return sent.message_type is not None and bool(sent.message_type.GetOptions().map_entry)


def _map(values: Field, sent: FieldDescriptor, place: str) -> Read:
    """The function from a map to a dict; of a key that was sent twice, the last value counts, as the format defines."""
    entry = sent.message_type.fields_by_name
    if _kind(entry["key"]) != "string":
        raise DefinitionError(f"{place}: field {sent.full_name} has keys that are {_kind(entry['key'])}; a map's keys are texts")
    value = _single(values, entry["value"], f"{place}[]")
    return lambda entries: {key: value(entries[key]) for key in entries}


def _single(field: Field, sent: FieldDescriptor, place: str) -> Read:
    described = sent.message_type
    if described is not None and field.fields and not described.GetOptions().map_entry:
        return _message(field.fields, described, place)
    if described is not None and described.full_name in _WRAPPERS:
        wrapped = _single(field, described.fields_by_name["value"], place)
        return lambda message: wrapped(message.value)
    if field.fields or field.items is not None or not takes(field, _kind(sent)):
        raise _misfit(field, sent, place)
    if described is not None:
        return partial(_READS[described.full_name], field.key)
    if sent.enum_type is not None:
        names = {number: value.name for number, value in sent.enum_type.values_by_number.items()}
        return partial(_name, field.key, names)
    return value_reader(field) or _identity


def _identity(value: Any) -> Any:
    return value


def _kind(sent: FieldDescriptor) -> Kind | None:
    if sent.message_type is not None:
        return _MESSAGES.get(sent.message_type.full_name)
    if sent.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return "bytes" if sent.type == FieldDescriptor.TYPE_BYTES else "string"
    return _KINDS[sent.cpp_type]


def _misfit(field: Field, sent: FieldDescriptor, place: str) -> DefinitionError:
    written = sent.message_type.full_name if sent.message_type is not None else _kind(sent)
    repeated = "repeated " if sent.is_repeated else ""
    valid = advice(None if sent.is_repeated else _kind(sent))
    return DefinitionError(
        f"{place}: field {sent.full_name} is {repeated}{written}, which is not what {field.arrow} is read from{valid}"
    )


def _name(key: str, names: dict[int, str], number: int) -> str:
    if number not in names:
        raise Reject("invalid_value", f"field {key}: the enum has no value {number}")
    return names[number]


def _time(key: str, timestamp: Any) -> datetime:
    if not 0 <= timestamp.nanos < _NANOS:
        raise Reject("invalid_value", f"field {key}: {timestamp.nanos} nanoseconds are not part of a second")
    try:
        return EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)
    except OverflowError:
        raise Reject(
            "out_of_range", f"field {key}: {timestamp.seconds} seconds since 1970 are not in a year from 1 to 9999"
        ) from None


def _duration(key: str, sent: Any) -> timedelta:
    """The duration, toward zero to the microsecond; seconds and nanoseconds have one sign."""
    if not -_NANOS < sent.nanos < _NANOS or sent.seconds * sent.nanos < 0:
        raise Reject("invalid_value", f"field {key}: {sent.nanos} nanoseconds are not part of {sent.seconds} seconds")
    if abs(sent.seconds) > _MOST_SECONDS:
        raise Reject("out_of_range", f"field {key}: {sent.seconds} seconds are more than a Duration may have")
    return timedelta(seconds=sent.seconds, microseconds=int(sent.nanos / 1000))


def _date(key: str, sent: Any) -> date:
    try:
        return date(sent.year, sent.month, sent.day)
    except ValueError as error:
        raise Reject("invalid_value", f"field {key}: not a whole date: {error}") from None


def _time_of_day(key: str, sent: Any) -> time:
    if not 0 <= sent.nanos < _NANOS:
        raise Reject("invalid_value", f"field {key}: {sent.nanos} nanoseconds are not part of a second")
    try:
        return clock_time(sent.hours, sent.minutes, sent.seconds, f"{sent.nanos:09}")
    except Reject as reject:
        raise Reject(reject.reason, f"field {key}: {reject.detail}") from reject


_MOST_SECONDS: Final = 315_576_000_000
_READS: Final = {
    "google.protobuf.Timestamp": _time,
    "google.protobuf.Duration": _duration,
    "google.type.Date": _date,
    "google.type.TimeOfDay": _time_of_day,
}
