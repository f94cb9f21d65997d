"""A file as the values of records, by what the file is and by its source's format."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Final

from tandem.cli.records.binary_kinds import AVRO_CONTAINER, refuse_binary
from tandem.cli.records.bundles import BundledValue, Bundles, lists
from tandem.cli.records.input_stream import first_bytes, input_stream
from tandem.cli.records.json_values import begins_collection, begins_values, feature_values, json_values
from tandem.cli.records.length_values import length_lists, length_values
from tandem.cli.records.lines import stream_lines
from tandem.cli.records.parquet.csv_rows import csv_encoder
from tandem.cli.records.parquet.parquet_values import SUFFIXES, EncodeRow, json_encoder, parquet_names, parquet_values
from tandem.views.decode.file import layout, value_ends
from tandem.views.errors import TandemError
from tandem.views.source.event import event_fields
from tandem.views.source.format import RecordFormat
from tandem.views.source.formats.avro import Avro
from tandem.views.source.formats.csv import Csv
from tandem.views.source.formats.json import Json
from tandem.views.source.formats.protobuf import Protobuf
from tandem.views.source.source import Source

SAMPLE: Final = 1000
"""The most values of a sample."""
FORCED: Final = ", or send it as it is with --allow-rejects"


@dataclass
class LineValues:
    """The values of a file of lines or CSV rows."""

    name: str
    _source: Source
    _stream: io.BufferedReader
    _bundles: Bundles = field(init=False)

    unit = "line"

    def __post_init__(self) -> None:
        self._bundles = Bundles.of(self._source, self.name)

    @property
    def lines(self) -> int:
        """How many lines of the file were read."""
        return self._bundles.seen

    def sample(self) -> list[BundledValue]:
        """The first values, each of one event where an event is a line. They are read ahead, and stay in the stream."""
        head = first_bytes(self._stream)
        whole_lines = io.BytesIO(head[: head.rfind(b"\n") + 1] or head)
        bundles = Bundles(replace(layout(self._source), lines=1), self.name)
        return _first(bundles.values(stream_lines(whole_lines, self.name, framed=self._has_frames)))

    def __iter__(self) -> Iterator[BundledValue]:
        """The values, once. Raises UnclosedQuote after the values before it, TandemError as `stream_lines` does."""
        return self._bundles.values(stream_lines(self._stream, self.name, framed=self._has_frames))

    @property
    def _has_frames(self) -> bool:
        return value_ends(self._source) == "framed lines"


@dataclass
class ObjectValues:
    """The values of a file of JSON values that are not a line each, or of Parquet rows; `lines` counts them.

    Where a value of the source holds a list of events, `_join` puts several together, into an array of JSON.
    """

    name: str
    unit: str
    _source: Source
    _values: Iterator[BundledValue]
    _sample: list[BundledValue]
    _join: Callable[[list[bytes]], bytes]
    lines: int = 0

    def sample(self) -> list[BundledValue]:
        """The first values."""
        return [replace(value, value=self._join([value.value])) for value in self._sample] if self._most else self._sample

    def __iter__(self) -> Iterator[BundledValue]:
        """The values, once. Raises TandemError after the values before the place that cannot be read."""
        return lists(self._count(), self._most, self._join) if self._most else self._count()

    @property
    def _most(self) -> int | None:
        return _most_events(self._source)

    def _count(self) -> Iterator[BundledValue]:
        for value in self._values:
            self.lines += 1
            yield value


@dataclass
class BinaryValues:
    """The values of a file of bytes, each with its length before it or in an Avro container; `lines` counts them."""

    name: str
    _values: Iterator[BundledValue]
    _sample: list[BundledValue]
    lines: int = 0

    unit = "record"

    def sample(self) -> list[BundledValue]:
        """The first values."""
        return self._sample

    def __iter__(self) -> Iterator[BundledValue]:
        """The values, once. Raises TandemError after the values before the place that cannot be read."""
        for value in self._values:
            self.lines += 1
            yield value


FileValues = LineValues | ObjectValues | BinaryValues


@contextmanager
def file_values(source: Source, file: Path, *, any_bytes: bool = False, remedy: str = "") -> Iterator[FileValues]:
    """Open a file, or standard input for `-`, to read its values.

    The values of Avro and Protobuf are bytes, so each has its length before it; of Avro a container is read, too.

    Otherwise, with `any_bytes` its lines are the values, whatever it is. Without, Parquet is recognised by the file's name, and
    for a JSON source an array of values, the features of GeoJSON, and values of several lines, by its first bytes. A
    FeatureCollection is a value where the event type takes `features`.

    Raises TandemError if it cannot be read, or is not text by its first bytes; `remedy` ends that sentence.
    """
    if file.suffix in SUFFIXES and not any_bytes:
        yield _parquet_rows(source, file)
        return
    with input_stream(file) as stream:
        head = first_bytes(stream)
        if value_ends(source) == "lengths":
            read_bytes = _binary_reader(source, head, str(file))
            yield BinaryValues(str(file), read_bytes(stream, str(file)), _first(read_bytes(io.BytesIO(head), str(file))))
            return
        if not any_bytes:
            refuse_binary(head, str(file), remedy)
        arrays = source.max_events_per_record is not None and source.unnest is None
        read = None if any_bytes or not isinstance(source.decoder, Json) else _json_reader(source, head, arrays=arrays)
        if read is not None:
            sample = _first(read(io.BytesIO(head), str(file)))
            yield ObjectValues(str(file), "line", source, read(stream, str(file)), sample, _array)
        else:
            yield LineValues(str(file), source, stream)


def _binary_reader(source: Source, head: bytes, file: str) -> Callable[[BinaryIO, str], Iterator[BundledValue]]:
    """How a file of bytes is read. Raises TandemError for a container whose records lack the id of their schema."""
    most = _most_events(source)
    if not AVRO_CONTAINER.has(head):
        # An array of Avro is one value of its schema; a list of messages is each message after its length.
        return partial(length_lists, most=most) if most and isinstance(source.decoder, Protobuf) else length_values
    if isinstance(source.decoder, Avro):
        from tandem.cli.records.avro_container import container_values  # noqa: PLC0415 - few projects need fastavro

        return partial(container_values, source.decoder, most=most)
    raise TandemError(
        f"{file} is an Avro container, whose records name no schema of a registry, and source '{source.name}' reads "
        f"{source.decoder}; write each record with its schema's id, and its length before it as a varint",
        code="file-unusable",
    )


def _most_events(source: Source) -> int | None:
    """The most events of a value, if it is a list; one for a source with a key, because a record has one key."""
    if source.unnest is not None:
        return None
    return source.max_events_per_record and (1 if source.key is not None else source.max_events_per_record)


def _json_reader(source: Source, head: bytes, *, arrays: bool) -> Callable[[BinaryIO, str], Iterator[BundledValue]] | None:
    """How a file that begins with these bytes is read; None if its lines are its values."""
    if begins_collection(head) and all(field.key != "features" for field in event_fields(source.event)):
        return feature_values
    return json_values if begins_values(head, arrays=arrays) else None


def _first(values: Iterator[BundledValue]) -> list[BundledValue]:
    """The first values, up to the first that cannot be read: whoever reads all of the file reports it."""
    sample: list[BundledValue] = []
    with suppress(TandemError):
        sample.extend(islice(values, SAMPLE))
    return sample


def _parquet_rows(source: Source, file: Path) -> ObjectValues:
    """The rows of a Parquet file: as CSV, or as JSON objects, which a function may read. Raises TandemError for other formats."""
    decoder: Any = source.decoder
    if isinstance(decoder, RecordFormat) and not isinstance(decoder, Csv | Json):
        raise TandemError(
            f"{file}: a row of a Parquet file becomes a JSON object or a row of CSV, and source '{source.name}' reads {decoder}; "
            "send it to a source whose decoder is json() or csv(header=True)",
            code="file-unusable",
        )
    encoder, join = json_encoder, _array
    if isinstance(decoder, Csv):
        header, encode = csv_encoder(source, decoder, parquet_names(file), str(file))
        encoder = partial(_encoder_of_one, encode, b"" if _most_events(source) else header)
        join = partial(_table, header)
    values = parquet_values(file, encoder)
    return ObjectValues(str(file), "row", source, values, list(islice(parquet_values(file, encoder), SAMPLE)), join)


def _array(items: list[bytes]) -> bytes:
    return b"[" + b",".join(items) + b"]"


def _table(header: bytes, rows: list[bytes]) -> bytes:
    return header + b"\n".join(rows)


def _encoder_of_one(encode: EncodeRow, header: bytes, _: Sequence[str]) -> EncodeRow:
    return lambda row, place: header + encode(row, place)
