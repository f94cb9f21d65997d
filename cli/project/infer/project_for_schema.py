"""The project for a topic, tried on some of its records, and for a subject of a registry, whose topic may not exist yet."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from tandem.cli.project.infer.change_sample import ChangeSample, change_sample, change_sample_of_schema
from tandem.cli.project.infer.example_events import example_event
from tandem.cli.project.infer.field_type import FieldType, span_of
from tandem.cli.project.infer.file_sample import quote, repeats
from tandem.cli.project.infer.first_view import choose
from tandem.cli.project.infer.project_for_changes import project_for_changes
from tandem.cli.project.infer.project_for_file import project_for_file
from tandem.cli.project.infer.project_text import ProjectText, check_text, definitions_text
from tandem.cli.project.infer.sample import FileSample
from tandem.cli.project.infer.schemas.registered_schema import (
    RegisteredSchema,
    RegistrySubject,
    has_frame,
    schema_of_header,
    schema_of_subject,
    schema_of_value,
    with_id_before,
)
from tandem.cli.project.infer.topic_sample import TopicSample
from tandem.cli.project.infer.tried_project import ProjectForFile
from tandem.cli.project.try_view import TOPIC, trial
from tandem.cli.records.bundles import BundledValue
from tandem.cli.records.length_values import length_bytes
from tandem.infra import clock
from tandem.infra.settings import RegistrySettings
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.decode.file import value_ends
from tandem.views.decode.sample_records import as_records
from tandem.views.decode.value_parsers import parse_values
from tandem.views.errors import DefinitionError, TandemError
from tandem.views.project.project import load_files
from tandem.views.source.event import event_fields
from tandem.views.source.formats.schema_registry import schema_id
from tandem.views.source.source import Source
from tandem.views.time_zone import time_zone

_MOSTLY: Final = 0.5
_IN_TEST: Final = 2


def project_for_topic(sample: TopicSample, registry: str | None, zone: str | None) -> ProjectForFile:
    """Guess the definitions for a topic; the project holds the records that were read, for `try`.

    Where records name a schema, its definition in the `registry` decides the fields. Raises TandemError, RegistryAway.
    """
    framed = [value for value in sample.values if has_frame(value)]
    in_headers = [(value, header) for value, header in zip(sample.values, sample.schema_ids, strict=True) if schema_id(header)[0]]
    most = _MOSTLY * len(sample.values)
    if len(framed) > most or len(in_headers) > most:
        if registry is None:
            where = "begin with the id of a schema" if len(framed) > most else "have the id of a schema in a header"
            raise TandemError(
                f"the records of topic {sample.topic!r} {where}; name its registry: --registry http://HOST:PORT",
                code="usage-invalid",
            )
        login, values = sample.settings.registry, sample.values
        if len(in_headers) > most:
            schema = schema_of_header(registry, in_headers[-1][1], login)
            values = tuple(filter(None, (with_id_before(schema, *each) for each in in_headers)))
        else:
            schema = schema_of_value(registry, framed[-1], login)
        schemas = RegistrySchemas(login)
        if (of_table := _changes(schema, sample.keys, zone, login)) is not None:
            return _with_records(of_table, schema, sample, values, schemas)
        return _for_schema(schema, sample.topic, zone, values, schemas=schemas, toml=sample.toml())
    if registry is not None:
        raise TandemError(f"the records of topic {sample.topic!r} name no schema of a registry", code="usage-invalid")
    return _for_texts(sample, zone)


def project_for_subject(subject: RegistrySubject, zone: str | None, settings: RegistrySettings) -> ProjectForFile:
    """Write the definitions for a subject, of which no record was read. Raises TandemError, RegistryAway."""
    schema = schema_of_subject(subject, settings)
    schemas = RegistrySchemas(settings)
    if (of_table := _changes(schema, (), zone, settings)) is not None:
        return project_for_changes(_name(subject.topic), _schema_origin(schema), of_table, (), schemas, topic=subject.topic)
    return _for_schema(schema, subject.topic, zone, (), schemas=schemas, toml="")


def _changes(
    schema: RegisteredSchema, keys: Sequence[bytes | None], zone: str | None, settings: RegistrySettings
) -> ChangeSample | None:
    """What a schema says of the changes of a table, with that of their keys; None for the schema of something else."""
    if schema.kind != "AVRO":
        return None
    from tandem.views.source.formats.change_events.avro_envelope import avro_records  # noqa: PLC0415 - needs fastavro

    key = next((key for key in keys if key is not None and has_frame(key)), None)
    of_key = None if key is None else schema_of_value(schema.registry, key, settings)
    try:
        envelope = avro_records(schema.text, f"schema {schema.id}", None).schema
        columns = None if of_key is None else avro_records(of_key.text, f"schema {of_key.id}", None).schema
    except DefinitionError:
        return None
    return change_sample_of_schema(envelope, columns, f"debezium(registry={quote(schema.registry)})", zone)


def _with_records(
    of_table: ChangeSample, schema: RegisteredSchema, sample: TopicSample, values: Sequence[bytes], schemas: RegistrySchemas
) -> ProjectForFile:
    """The project for changes in Avro, and the records that were read."""
    name = f"{_file_name(sample.topic)}.records"
    begun = project_for_changes(
        _name(sample.topic), _schema_origin(schema), of_table, values, schemas, topic=sample.topic, toml=sample.toml()
    )
    content = b"".join(map(length_bytes, values))
    return replace(begun, files={**begun.files, name: content}, events=name)


def _schema_origin(schema: RegisteredSchema) -> str:
    return f"schema {schema.id} of {schema.registry}"


def _for_texts(sample: TopicSample, zone: str | None) -> ProjectForFile:
    """The project for records that a file can hold as lines."""
    if (of_table := change_sample(sample.values, sample.keys, zone)) is not None:
        name = f"{_file_name(sample.topic)}.jsonl"
        schemas = RegistrySchemas(sample.settings.registry)
        begun = project_for_changes(
            _name(sample.topic), _origin(sample), of_table, sample.values, schemas, topic=sample.topic, toml=sample.toml()
        )
        content = b"".join(value.rstrip(b"\r\n") + b"\n" for value in sample.values)
        return replace(begun, files={**begun.files, name: content}, events=name)
    json = sample.values[-1].lstrip()[:1] in (b"{", b"[")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{_file_name(sample.topic)}.{'jsonl' if json else 'txt'}"
        file.write_bytes(b"".join(value.rstrip(b"\r\n") + b"\n" for value in sample.values))
        begun = project_for_file(file, zone, topic=sample.topic, header=False, origin=_origin(sample))
        content = file.read_bytes()
    return replace(begun, files={**begun.files, "tandem.toml": sample.toml().encode(), file.name: content}, events=file.name)


def _for_schema(
    schema: RegisteredSchema,
    topic: str,
    zone: str | None,
    values: Sequence[bytes],
    *,
    schemas: RegistrySchemas,
    toml: str,
) -> ProjectForFile:
    if zone is not None:
        time_zone(zone)
    origin = _schema_origin(schema)
    columns = schema.columns(zone)

    def write_text(columns: Mapping[str, FieldType], alike: frozenset[str]) -> ProjectText:
        sample = FileSample(schema.decoder, columns, len(values), alike, f"the fields are those of {origin}", topic)
        return definitions_text(_name(topic), origin, sample, choose(sample, origin), zone or "UTC")

    text = write_text(columns, frozenset())
    source = load_files(_files(text, toml)).sources[text.source]
    events = _decode(source, values, schemas) if values else [example_event(source.event, n) for n in range(1, 3)]
    rows = [_row(event) for event in events]
    text = write_text(_measure(columns, rows), repeats([_as_texts(row) for row in rows]) if values else frozenset())
    project = load_files(_files(text, toml))
    tried = trial(project.views[text.view], _bundles(values), at=clock.now(), schemas=schemas)
    some = _decode(project.sources[text.source], values, schemas) if values else []
    some = some or [example_event(project.sources[text.source].event, n) for n in range(1, 3)]
    checks = check_text(origin, text, _different(project.sources[text.source], some))
    files = {**_files(text, toml), "test_definitions.py": checks.encode()}
    if not values:
        return ProjectForFile(files, text.source, text.view, tried)
    name = f"{_file_name(topic)}.records"
    ends = value_ends(source) == "lengths"
    content = b"".join(length_bytes(value) if ends else value.rstrip(b"\r\n") + b"\n" for value in values)
    return ProjectForFile({**files, name: content}, text.source, text.view, tried, name)


def _files(text: ProjectText, toml: str) -> dict[str, bytes]:
    return {"definitions.py": text.definitions.encode(), "tandem.toml": toml.encode()}


def _decode(source: Source, values: Sequence[bytes], schemas: RegistrySchemas) -> list[Any]:
    """The values as events. Raises TandemError if none of them is one."""
    ready = schemas.ready_for(source, values)
    records = as_records(ready, values, topic_id=TOPIC, offsets=range(len(values)), at=clock.now())
    events, rejects = parse_values(ready, ready.event, ready.decoder, records.combine_chunks().to_batches()[0])
    if not events:
        reject = next(iter(rejects.values()))
        raise TandemError(f"no record can be decoded: {reject.reason}: {reject.detail}", code="file-unusable")
    return [*events.values()]


def _row(event: Any) -> dict[str, Any]:
    """The values of an event by the keys of its fields."""
    return {field.key: getattr(event, field.name) for field in event_fields(event.__class__)}


def _as_texts(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row with texts in place of values that may identify an event and that JSON does not have."""
    return {name: str(value) if isinstance(value, UUID) else value for name, value in row.items()}


def _measure(columns: Mapping[str, FieldType], rows: Sequence[Mapping[str, Any]]) -> dict[str, FieldType]:
    """The types with what the values of rows say: how many are different, and which times they span."""
    return {name: _with_values(of, [row[name] for row in rows if row.get(name) is not None]) for name, of in columns.items()}


def _with_values(of: FieldType, values: Sequence[Any]) -> FieldType:
    if of.kind == "struct" and values and not of.annotation.startswith("list["):
        return replace(of, members=tuple(_measure(dict(of.members), [_row(value) for value in values]).items()))
    span = span_of(values) if of.kind in ("time", "date") and values else None
    return replace(of, distinct=len({repr(value) for value in values}), span=span)


def _different(source: Source, events: Sequence[Any]) -> list[Any]:
    """Two events of different identities; one, if there are no two."""
    several: dict[Any, Any] = {}
    for number, event in enumerate(events):
        several.setdefault(tuple(getattr(event, field) for field in source.identity) or number, event)
    return [*several.values()][:_IN_TEST]


def _bundles(values: Sequence[bytes]) -> Iterator[BundledValue]:
    return (BundledValue(value, number, len(value)) for number, value in enumerate(values, 1))


def _origin(sample: TopicSample) -> str:
    return f"{len(sample.values)} records of topic {sample.topic}"


def _name(topic: str) -> str:
    """The name of a source for a topic such as `shop.orders` or `shop.orders.v1`."""
    words = [word for word in topic.split(".") if not word.startswith("v") or not word[1:].isdigit()]
    return words[-1] if words else topic


def _file_name(topic: str) -> str:
    return _name(topic) or "records"
