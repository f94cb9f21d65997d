"""An Avro object container file as the values of records: each datum with the bytes that it has there."""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, BinaryIO, Final, cast

from fastavro import block_reader
from fastavro.schema import SchemaParseException

from tandem.cli.records.bundles import BundledValue, lists
from tandem.views.errors import TandemError
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.avro import Avro
from tandem.views.source.formats.avro_format.records import parsed_schema
from tandem.views.source.formats.avro_format.skip import after

_MEANING: Final = frozenset(("type", "name", "fields", "symbols", "items", "values", "size", "logicalType", "precision", "scale"))
"""The keys of a schema that decide what its bytes mean."""
_LONGEST: Final = 300


def container_values(decoder: Avro, stream: BinaryIO, file: str, *, most: int | None = None) -> Iterator[BundledValue]:
    """The data of the container, numbered from 1; with the schema's id before each, if values of the source begin with one.

    Records whose array is the source's schema become arrays of at most `most` records.

    Raises TandemError if the container is not of a schema of the source, or after the values before a place that cannot be read.
    """
    with _broken(file) as place:
        blocks = block_reader(cast("BinaryIO", _Counted(stream)))
        schema, names = parsed_schema(blocks.writer_schema)
        data = _data(blocks, schema, names, place)
    prefix, in_array = _form(decoder, _meaning(schema), file)
    if in_array:
        assert most is not None  # a source takes an array only with `max_events_per_record`
        yield from lists(data, most, lambda items: prefix + _long(len(items)) + b"".join(items) + b"\0")
        return
    for datum in data:
        yield replace(datum, value=prefix + datum.value) if prefix else datum


@dataclass
class _Place:
    """The number of the last record that was read."""

    number: int = 0
    file: str = ""


@contextmanager
def _broken(file: str, place: _Place | None = None) -> Iterator[_Place]:
    """Errors of a reader of a broken file are TandemErrors."""
    place = place or _Place(file=file)
    try:
        yield place
    except (TandemError, OSError, MemoryError):
        raise
    except (SchemaParseException, Reject, ValueError, EOFError, LookupError, TypeError, zlib.error) as error:
        raise TandemError(
            f"record {place.number + 1} of {file}: cannot read the Avro container: {error or type(error).__name__}",
            code="file-unusable",
        ) from error


def _data(blocks: Any, schema: Any, names: Any, place: _Place) -> Iterator[BundledValue]:
    with _broken(place.file, place):
        for block in blocks:
            content, at = block.bytes_.getvalue(), 0
            for _ in range(block.num_records):
                end = after(schema, names, content, at)
                place.number += 1
                yield BundledValue(content[at:end], place.number, end - at)
                at = end
            if at < len(content):
                raise ValueError(f"{len(content) - at} bytes after the last record of a block")


def _form(decoder: Avro, meaning: Any, file: str) -> tuple[bytes, bool]:
    """What a value of the source has before a datum, and whether it is an array of such data."""
    schemas = ((None, decoder.schemas),) if isinstance(decoder.schemas, str) else decoder.schemas
    for identifier, text in schemas:
        wanted = _meaning(parsed_schema(json.loads(text))[0])
        is_array = isinstance(wanted, dict) and wanted["type"] == "array"
        if wanted == meaning or (is_array and wanted["items"] == meaning):
            return b"" if identifier is None else b"\0" + identifier.to_bytes(4, "big"), wanted != meaning
    raise TandemError(
        f"{file}: the container's schema differs from the source's: {_short(meaning)}; write the file with the schema that "
        "decoder=avro(...) names, or send it to a source that has this schema",
        code="file-unusable",
    )


def _long(number: int) -> bytes:
    """A positive number as Avro writes it: zigzag, seven bits a byte."""
    number, low = number << 1, b""
    while number >= 0x80:
        low += bytes((number & 0x7F | 0x80,))
        number >>= 7
    return low + bytes((number,))


def _meaning(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_meaning(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    meaning = {key: _meaning(value) if key in ("type", "fields", "items", "values") else value for key, value in schema.items()}
    kept = {key: value for key, value in meaning.items() if key in _MEANING}
    return kept["type"] if kept.keys() == {"type"} else kept


def _short(meaning: Any) -> str:
    text = json.dumps(meaning)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


class _Counted:
    """A stream that may be a pipe, with the position in it, which fastavro asks for."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        content = self._stream.read(size)
        self._at += len(content)
        return content

    def tell(self) -> int:
        return self._at
