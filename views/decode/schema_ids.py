"""Which schemas of registries the records of a source name, and the source with those that were fetched."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.source.decoder import Decoder
from tandem.views.source.formats.schema_registry import (
    FRAME_BYTES,
    KEY_ID_HEADER,
    SCHEMA_ID_HEADER,
    FetchedSchema,
    FetchedSchemas,
    FromRegistry,
    SchemaKey,
    schema_id,
)
from tandem.views.source.source import Source

Rows = list[tuple[SchemaKey, FetchedSchema]]


def needs_registry(source: Source) -> bool:
    """Whether a decoder of the source, or of an earlier version, reads schemas of a registry."""
    return any(True for _ in _decoders(source))


def missing_schemas(source: Source, records: pa.Table) -> list[SchemaKey]:
    """The schemas that these records name and that the source does not have yet, each once; other sources' records count, too."""
    decoders = list(_decoders(source))
    if not decoders:
        return []
    batches = records.to_batches()
    ids = {identifier for batch in batches for identifier in _ids(batch, "value", SCHEMA_ID_HEADER)}
    of_keys = any(decoder.reads_keys for decoder in decoders)
    in_keys = {identifier for batch in batches if of_keys for identifier in _ids(batch, "key", KEY_ID_HEADER)}
    return sorted(
        {
            SchemaKey(decoder.registry, decoder.kind, identifier)
            for decoder in decoders
            for identifier in (ids | in_keys if decoder.reads_keys else ids) - {each for each, _ in decoder.schemas}
        }
    )


def with_schemas(source: Source, schemas: FetchedSchemas) -> Source:
    """The source with the fetched schemas of its registries: its fingerprints stay the same."""
    if not needs_registry(source) or not schemas:
        return source

    def ready(decoder: Decoder) -> Decoder:
        if not isinstance(decoder, FromRegistry):
            return decoder
        mine = {key.id: each for key, each in schemas.items() if (key.registry, key.kind) == (decoder.registry, decoder.kind)}
        return replace(decoder, schemas=tuple(sorted(mine.items(), key=lambda item: item[0])))

    versions = tuple(replace(version, decoder=ready(version.decoder)) for version in source.versions)
    return replace(source, decoder=ready(source.decoder), versions=versions)


def schemas_of(source: Source) -> dict[SchemaKey, FetchedSchema]:
    """The fetched schemas that the source has."""
    return {
        SchemaKey(decoder.registry, decoder.kind, identifier): schema
        for decoder in _decoders(source)
        for identifier, schema in decoder.schemas
    }


def dump_schemas(schemas: FetchedSchemas) -> bytes:
    """Schemas as a file, for `load_schemas`."""
    return msgspec.json.encode(sorted(((key, each) for key, each in schemas.items()), key=lambda item: item[0]))


def load_schemas(content: bytes) -> dict[SchemaKey, FetchedSchema]:
    """The schemas of a file that `dump_schemas` made."""
    return dict(msgspec.json.decode(content, type=Rows))


def _decoders(source: Source) -> Iterator[FromRegistry]:
    for decoder in (source.decoder, *(version.decoder for version in source.versions)):
        if isinstance(decoder, FromRegistry):
            yield decoder


def _ids(batch: pa.RecordBatch, part: str, header: str) -> Iterator[str]:
    """The ids in headers, and those at the start of a part of records that have no such header: of the value, or the key."""
    in_headers = _in_headers(batch.column("headers"), header)
    yield from filter(None, (schema_id(content or b"")[0] for content in in_headers.values()))
    values = batch.column(part)
    if in_headers:
        values = values.take(pa.array([row for row in range(batch.num_rows) if row not in in_headers], pa.int64()))
    for frame in pc.unique(pc.binary_slice(values, 0, FRAME_BYTES)).to_pylist():
        if frame is not None and len(frame) == FRAME_BYTES and frame[0] == 0:
            yield schema_id(frame)[0]


def _in_headers(headers: Any, header: str) -> dict[int, Any]:
    """By row, the last header with a schema's id."""
    flat = headers.flatten()
    if not len(flat):
        return {}
    named = pc.equal(pc.struct_field(flat, "key"), header)
    rows = pc.list_parent_indices(headers).filter(named).to_pylist()
    return dict(zip(rows, pc.struct_field(flat, "value").filter(named).to_pylist(), strict=True))
