"""The types of fields by a descriptor of Protocol Buffers: presence, enums and messages of Google's own are as declared."""

import base64
from dataclasses import replace
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from tandem.cli.project.infer.field_type import STRUCT, FieldType
from tandem.cli.project.infer.schemas.schema_parts import array_of, choices, map_of

_KINDS: Final = {
    FieldDescriptor.CPPTYPE_BOOL: FieldType("truth", "bool"),
    **dict.fromkeys(
        (
            FieldDescriptor.CPPTYPE_INT32,
            FieldDescriptor.CPPTYPE_INT64,
            FieldDescriptor.CPPTYPE_UINT32,
            FieldDescriptor.CPPTYPE_UINT64,
        ),
        FieldType("integer", "int"),
    ),
    **dict.fromkeys((FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE), FieldType("double", "float")),
    FieldDescriptor.CPPTYPE_STRING: FieldType("text", "str"),
}
_MESSAGES: Final = {
    "google.protobuf.Timestamp": FieldType("time", "datetime"),
    "google.protobuf.Duration": FieldType("other", "timedelta"),
    "google.type.Date": FieldType("date", "date"),
    **{f"google.protobuf.{name}Value": FieldType("integer", "int") for name in ("Int32", "Int64", "UInt32", "UInt64")},
    **{f"google.protobuf.{name}Value": FieldType("double", "float") for name in ("Float", "Double")},
    "google.protobuf.BoolValue": FieldType("truth", "bool"),
    "google.protobuf.StringValue": FieldType("text", "str"),
    "google.protobuf.BytesValue": FieldType("other", "bytes"),
}


def protobuf_columns(text: str, message: str) -> dict[str, FieldType]:
    """The types of the fields of a message, by a FileDescriptorSet in base64."""
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(base64.b64decode(text)).file:
        pool.AddSerializedFile(file.SerializeToString())
    return _members(pool.FindMessageTypeByName(message), ())


def _members(of: Descriptor, outer: tuple[str, ...]) -> dict[str, FieldType]:
    return {field.name: _type(field, (*outer, of.full_name)) for field in of.fields}


def _type(field: Any, outer: tuple[str, ...]) -> FieldType:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        if key.cpp_type != FieldDescriptor.CPPTYPE_STRING:
            return FieldType("other", "", "the keys of its map are not texts")
        return map_of(_single(value, outer))
    of = _single(field, outer)
    if field.is_repeated:
        return array_of(of)
    return replace(of, missing=field.has_presence, absent=False)


def _single(field: Any, outer: tuple[str, ...]) -> FieldType:
    if field.enum_type is not None:
        return choices([value.name for value in field.enum_type.values])
    if field.message_type is None:
        kind = _KINDS[field.cpp_type]
        return FieldType("other", "bytes") if field.type == FieldDescriptor.TYPE_BYTES else kind
    name = field.message_type.full_name
    if name in _MESSAGES:
        return _MESSAGES[name]
    if name in outer:
        return FieldType("other", "", "the message contains itself here")
    return FieldType("struct", STRUCT, members=tuple(_members(field.message_type, outer).items()))
