"""The decoders of Debezium's change events in Avro: a record's value and key each begin with the id of their schema.

A key that does not is read as JSON, as a connector writes it with another converter for keys.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, ClassVar

import msgspec

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import Listed, Parse, Unnest
from tandem.views.source.formats.avro import Avro, Schema, avro
from tandem.views.source.formats.change_events.change_reader import ChangeReader, WrittenRow, refuse_lists
from tandem.views.source.formats.schema_registry import KEY_ID_HEADER, FromRegistry, Kind, frame_of

_MOST_SCHEMAS = 1000


@dataclass(frozen=True)
class DebeziumAvro:
    """The decoder of change events in Avro, with the schemas of the project by their ids, as JSON."""

    record_parts: ClassVar[tuple[str, ...]] = ("headers", "key", "timestamp")
    reads_tombstones: ClassVar[bool] = True

    schemas: tuple[tuple[int, str], ...]
    before: bool = False

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value, its headers, key and timestamp to one event. Raises DefinitionError."""
        texts = {str(number): text for number, text in self.schemas}

        def text_of(identifier: str) -> str:
            if identifier not in texts:
                raise Reject("schema", f"the source has no schema {identifier}; schemas: {', '.join(sorted(texts, key=int))}")
            return texts[identifier]

        return _AvroChanges(event, text_of, before=self.before).parse

    def refuse_lists(self, event: type[Event]) -> Listed:
        """Raises DefinitionError: a value is one change."""
        return refuse_lists(event)

    listed = refuse_lists

    def __str__(self) -> str:
        return call("debezium", schemas=dict(self.schemas), **({"before": True} if self.before else {}))


@dataclass(frozen=True)
class DebeziumFromRegistry(FromRegistry):
    """The decoder of change events in Avro, with schemas of a registry."""

    kind: ClassVar[Kind] = "AVRO"
    reads_tombstones: ClassVar[bool] = True
    reads_keys: ClassVar[bool] = True

    before: bool = False

    @property
    def record_parts(self) -> tuple[str, ...]:
        """Headers, which may have the schemas' ids; the key is that of the row."""
        return ("headers", "key", "timestamp")

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value, its headers, key and timestamp to one event. Raises DefinitionError."""
        schemas = dict(self.schemas)
        return _AvroChanges(event, partial(self.text, schemas), before=self.before).parse

    def refuse_lists(self, event: type[Event]) -> Listed:
        """Raises DefinitionError: a value is one change."""
        return refuse_lists(event)

    listed = refuse_lists

    def unnest(self, event: type[Event], place: Unnest) -> Listed:  # noqa: ARG002  no place of a change is a list of events
        """Raises DefinitionError: a value is one change."""
        return refuse_lists(event)

    def __str__(self) -> str:
        return call("debezium", registry=self.registry, **({"before": True} if self.before else {}))


def canonical_schemas(schemas: Mapping[int, Schema]) -> tuple[tuple[int, str], ...]:
    """Schemas by id as canonical JSON. Raises DefinitionError."""
    try:
        decoder = avro(schemas=schemas)
    except DefinitionError as error:
        raise DefinitionError(f"debezium{str(error).removeprefix('avro')}") from error
    assert isinstance(decoder, Avro)
    assert isinstance(decoder.schemas, tuple)
    return decoder.schemas


class _AvroChanges:
    """How one event type reads changes in Avro; `text_of` returns the schema of an id, and raises Reject."""

    def __init__(self, event: type[Event], text_of: Callable[[str], str], *, before: bool) -> None:
        self._reader = ChangeReader(event, before=before)
        self._text_of = text_of
        self._of_schema: dict[tuple[str, bool], Any] = {}

    def parse(self, value: bytes | None, headers: Any, key: bytes | None, timestamp: datetime | None) -> Any:
        """The event of one change. Raises Reject."""
        of_key = None if key is None else partial(self._key, key, headers)
        if value is None:
            return self._reader.tombstone(of_key, timestamp)
        frame = frame_of(value, headers, message=False)
        records, changes = self._records(frame.id, key=False)
        return self._reader.change(records.read(value[frame.start :]), changes, of_key)

    def _key(self, key: bytes, headers: Any) -> WrittenRow:
        in_header = any(header["key"] == KEY_ID_HEADER for header in headers or ())
        if key[:1] != b"\0" and not in_header:
            return self._reader.json_key(key)
        frame = frame_of(key, headers, message=False, header_name=KEY_ID_HEADER)
        records, changes = self._records(frame.id, key=True)
        return WrittenRow(msgspec.json.encode(records.read(key[frame.start :])), changes)

    def _records(self, identifier: str, *, key: bool) -> Any:
        """The records of a schema's values, or of keys, and how their columns are written."""
        from tandem.views.source.formats.change_events.avro_envelope import avro_records  # noqa: PLC0415  few need fastavro

        if (identifier, key) not in self._of_schema:
            text = self._text_of(identifier)
            try:
                records = avro_records(text, f"schema {identifier}", self._reader.key_columns if key else self._reader.columns)
            except DefinitionError as error:
                raise Reject("schema", f"schema {identifier}: {error}") from error
            if len(self._of_schema) >= _MOST_SCHEMAS:
                self._of_schema.clear()
            row = records.schema if key else records.schema.member("after")
            self._of_schema[identifier, key] = records, self._reader.rewrites(row)
        return self._of_schema[identifier, key]
