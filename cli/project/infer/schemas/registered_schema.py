"""The columns that a schema of a registry declares, and the decoder that reads its records."""

import base64
import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from tandem.cli.project.infer.field_type import FieldType
from tandem.cli.project.infer.file_sample import quote
from tandem.cli.project.infer.schemas.avro_types import avro_columns
from tandem.cli.project.infer.schemas.json_schema_types import json_schema_columns
from tandem.infra.settings import RegistrySettings
from tandem.ledger.log.registry_client import RegistryClient
from tandem.views.errors import TandemError
from tandem.views.source.formats.protobuf_messages import message_at
from tandem.views.source.formats.schema_registry import (
    FRAME_BYTES,
    SCHEMA_ID_HEADER,
    FetchedSchema,
    Kind,
    SchemaFrame,
    SchemaKey,
    check_address,
    frame_of,
)

_SUBJECT: Final = re.compile(r"(https?://.+?)/subjects/([^/]+)(?:/versions/([^/]+))?/?")
_KINDS: Final[tuple[Kind, ...]] = ("AVRO", "PROTOBUF", "JSON")


@dataclass(frozen=True)
class RegisteredSchema:
    """A schema by its registry and id; `message` is the place of a message of Protocol Buffers in its file."""

    registry: str
    id: str
    kind: str
    text: str
    message: tuple[int, ...] = (0,)

    @property
    def decoder(self) -> str:
        """The call of the decoder, as a definition has it."""
        return f"{self.kind.lower()}(registry={quote(self.registry)})"

    def columns(self, zone: str | None) -> dict[str, FieldType]:
        """The types of the event's fields. Raises TandemError for a schema that has none."""
        if self.kind == "AVRO":
            return avro_columns(self.text, zone)
        if self.kind == "JSON":
            return json_schema_columns(self.text)
        from tandem.cli.project.infer.schemas.protobuf_types import protobuf_columns  # noqa: PLC0415 - few projects need protobuf

        if not self.text:
            raise TandemError(f"the registry {self.registry} returns schema {self.id} as text only", code="file-unusable")
        return protobuf_columns(self.text, message_at(base64.b64decode(self.text), self.message))


@dataclass(frozen=True)
class RegistrySubject:
    """A subject of a registry, and which of its versions."""

    registry: str
    name: str
    version: str

    @property
    def topic(self) -> str:
        """The topic whose values have this schema, by the naming that Confluent's serializers begin with."""
        return self.name.removesuffix("-value")


def parse_subject(address: str) -> RegistrySubject | None:
    """The subject of `http://host/subjects/NAME` or `.../versions/N`; None for another address. Raises DefinitionError."""
    match = _SUBJECT.fullmatch(address)
    if match is None:
        return None
    return RegistrySubject(check_address("--from", match[1]), unquote(match[2]), match[3] or "latest")


def schema_of_subject(subject: RegistrySubject, settings: RegistrySettings) -> RegisteredSchema:
    """The schema of a version of a subject. Raises RegistryAway, TandemError if the registry does not have it."""
    answer = RegistryClient(settings).version(subject.registry, subject.name, subject.version)
    if answer is None:
        raise TandemError(
            f"the registry {subject.registry} has no version {subject.version!r} of subject {subject.name!r}",
            code="file-unusable",
        )
    return schema_of_id(subject.registry, str(answer["id"]), settings)


def schema_of_value(registry: str, value: bytes, settings: RegistrySettings) -> RegisteredSchema:
    """The schema that a value names. Raises RegistryAway, TandemError if the registry does not have it."""
    check_address("--registry", registry)
    schema = schema_of_id(registry, frame_of(value, None, message=False).id, settings)
    frame: SchemaFrame = frame_of(value, None, message=schema.kind == "PROTOBUF")
    return RegisteredSchema(registry, schema.id, schema.kind, schema.text, frame.message)


def schema_of_header(registry: str, header: bytes, settings: RegistrySettings) -> RegisteredSchema:
    """The schema that a record's header names. Raises RegistryAway, Reject, TandemError if the registry does not have it."""
    check_address("--registry", registry)
    in_header = [{"key": SCHEMA_ID_HEADER, "value": header}]
    schema = schema_of_id(registry, frame_of(b"", in_header, message=False).id, settings)
    frame = frame_of(b"", in_header, message=schema.kind == "PROTOBUF")
    return RegisteredSchema(registry, schema.id, schema.kind, schema.text, frame.message)


def with_id_before(schema: RegisteredSchema, value: bytes, header: bytes) -> bytes:
    """A value with the number of its header in front, as files have it; empty for a GUID, which cannot stand there."""
    if header[:1] != b"\0":
        return b""
    place = header[FRAME_BYTES:] or b"\0"
    return header[:FRAME_BYTES] + (place if schema.kind == "PROTOBUF" else b"") + value


def schema_of_id(registry: str, identifier: str, settings: RegistrySettings) -> RegisteredSchema:
    """The schema of an id, of any type. Raises RegistryAway, TandemError."""
    client = RegistryClient(settings)
    fetched = client.fetch(SchemaKey(registry, "AVRO", identifier))
    kind = next((kind for kind in _KINDS if kind == fetched.kind), None)
    if kind is None:
        raise TandemError(f"the registry {registry} has no schema {identifier}", code="file-unusable")
    whole: FetchedSchema = fetched if kind == "AVRO" else client.fetch(SchemaKey(registry, kind, identifier))
    return RegisteredSchema(registry, identifier, kind, whole.text)


def has_frame(value: bytes) -> bool:
    """Whether a value may name its schema: it begins with a zero byte, and four bytes of a number follow."""
    return len(value) > 5 and value[0] == 0
