"""A file as the values of records, by what the file is and by its source's format."""

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from tandem.cli.records.binary_kinds import refuse_binary
from tandem.cli.records.bundles import BundledValue, Bundles
from tandem.cli.records.input_stream import first_bytes, input_stream
from tandem.cli.records.json_values import begins_collection, begins_values, feature_values, json_values
from tandem.cli.records.lines import stream_lines
from tandem.cli.records.parquet_values import SUFFIXES, parquet_values
from tandem.views.decode.file import layout
from tandem.views.decode.schema_ids import needs_registry
from tandem.views.errors import TandemError
from tandem.views.source.event import event_fields
from tandem.views.source.format import RecordFormat
from tandem.views.source.formats.json import Json
from tandem.views.source.source import Source

SAMPLE: Final = 1000
"""The most values of a sample."""
FORCED: Final = ", or send it as it is with --allow-rejects"
_MOST_BYTES: Final = 500_000
"""The most bytes of an array of events: by default a broker accepts one megabyte."""


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
        return _first(bundles.values(stream_lines(whole_lines, self.name, holes=self._has_holes)))

    def __iter__(self) -> Iterator[BundledValue]:
        """The values, once. Raises UnclosedQuote after the values before it, TandemError as `stream_lines` does."""
        return self._bundles.values(stream_lines(self._stream, self.name, holes=self._has_holes))

    @property
    def _has_holes(self) -> bool:
        """Whether NUL bytes before a line are a hole: they begin a value that names its schema in a registry."""
        return not needs_registry(self._source)


@dataclass
class ObjectValues:
    """The values of a file of JSON values that are not a line each, or of Parquet rows as JSON; `lines` counts them.

    Where a value of the source holds a list of events, they are put together in arrays.
    """

    name: str
    unit: str
    _source: Source
    _values: Iterator[BundledValue]
    _sample: list[BundledValue]
    lines: int = 0

    def sample(self) -> list[BundledValue]:
        """The first values."""
        return [replace(value, value=b"[" + value.value + b"]") for value in self._sample] if self._most else self._sample

    def __iter__(self) -> Iterator[BundledValue]:
        """The values, once. Raises TandemError after the values before the place that cannot be read."""
        return self._arrays(self._most) if self._most else self._count()

    @property
    def _most(self) -> int | None:
        """The most events of a value, if it is a list; one for a source with a key, because a record has one key."""
        if self._source.unnest is not None:
            return None
        return self._source.max_events_per_record and (1 if self._source.key is not None else self._source.max_events_per_record)

    def _count(self) -> Iterator[BundledValue]:
        for value in self._values:
            self.lines += 1
            yield value

    def _arrays(self, most: int) -> Iterator[BundledValue]:
        items: list[BundledValue] = []
        size = 0
        for value in self._count():
            if items and (len(items) == most or size + value.size > _MOST_BYTES):
                yield _array(items)
                items, size = [], 0
            items.append(value)
            size += value.size
        if items:
            yield _array(items)


FileValues = LineValues | ObjectValues


@contextmanager
def file_values(source: Source, file: Path, *, any_bytes: bool = False, remedy: str = "") -> Iterator[FileValues]:
    """Open a file, or standard input for `-`, to read its values.

    With `any_bytes` its lines are the values, whatever it is. Otherwise Parquet is recognised by the file's name, and for a JSON
    source an array of values, the features of GeoJSON, and values of several lines, by its first bytes. A FeatureCollection is a
    value where the event type takes `features`.

    Raises TandemError if it cannot be read, or is not text by its first bytes; `remedy` ends that sentence.
    """
    if file.suffix in SUFFIXES and not any_bytes:
        _refuse_other_format(source, file)
        yield ObjectValues(str(file), "row", source, parquet_values(file), list(islice(parquet_values(file), SAMPLE)))
        return
    with input_stream(file) as stream:
        head = first_bytes(stream)
        if not any_bytes:
            refuse_binary(head, str(file), remedy)
        arrays = source.max_events_per_record is not None and source.unnest is None
        read = None if any_bytes or not isinstance(source.decoder, Json) else _json_reader(source, head, arrays=arrays)
        if read is not None:
            yield ObjectValues(str(file), "line", source, read(stream, str(file)), _first(read(io.BytesIO(head), str(file))))
        else:
            yield LineValues(str(file), source, stream)


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


def _array(items: list[BundledValue]) -> BundledValue:
    return BundledValue(b"[" + b",".join(item.value for item in items) + b"]", items[0].line, sum(item.size for item in items))


def _refuse_other_format(source: Source, file: Path) -> None:
    """A function may read JSON; of the formats only JSON does."""
    if isinstance(source.decoder, RecordFormat) and not isinstance(source.decoder, Json):
        raise TandemError(
            f"{file}: a row of a Parquet file becomes a JSON object, and source '{source.name}' reads {source.decoder}; "
            "send it to a source whose decoder is json()",
            code="file-unusable",
        )
