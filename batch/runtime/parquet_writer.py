"""Write one Parquet file of a Delta table inside a task; the driver commits what tasks have written.

A file that no commit names is never read: killed and repeated tasks leave such files, and a vacuum deletes them.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake.transaction import AddAction

from tandem.infra import clock
from tandem.infra.storage.storage import Upload
from tandem.ledger.delta.location import Location
from tandem.views.instant import FIRST, LAST
from tandem.views.source.event import TIMESTAMP

GROUP_ROWS: Final = 1 << 17
"""Rows of a row group, which a reader reads as a whole."""

_SHORT: Final = 32  # Delta stores this many characters; longer bounds would have to be rounded.


@dataclass(frozen=True)
class Written:
    """One finished file: its path in the table, and its metadata for a Delta commit."""

    path: str
    size: int
    rows: int
    bounds: Mapping[str, tuple[Any, Any]]
    partition_values: Mapping[str, str]
    milliseconds: int

    def add_action(self) -> AddAction:
        """The action that adds the file to the table."""
        stats = {
            "numRecords": self.rows,
            "minValues": {name: _json(low) for name, (low, _) in self.bounds.items()},
            "maxValues": {name: _json(high) for name, (_, high) in self.bounds.items()},
            "nullCount": {},
        }
        values = dict(self.partition_values)
        return AddAction(self.path, self.size, values, self.milliseconds, True, json.dumps(stats))


@dataclass
class TableFile:
    """A file to write, created with its first row. Use it as a context manager, then read `written`; None without rows.

    `bounded` names the columns whose smallest and largest values go to the table's log, so that readers can skip the file;
    `partition_values` are the table's partition columns, which the file itself lacks. `beside` are columns that the file has and
    the table's schema lacks; hardly any two rows have the same value in them. `in_log_order` says that rows are written in the
    order of the log: from row to row the bounded offsets and times change little. `group_rows` is the most rows of a row group,
    and `name` how the file's name begins.
    """

    place: Location
    schema: pa.Schema
    bounded: Sequence[str] = ()
    partition_values: Mapping[str, str] = field(default_factory=dict)
    beside: Sequence[pa.Field] = ()
    in_log_order: bool = False
    group_rows: int = GROUP_ROWS
    name: str = "part"
    written: Written | None = None
    _upload: Upload | None = None
    _writer: pq.ParquetWriter | None = None
    _path: str = ""
    _rows: int = 0
    _bounds: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    _unbounded: set[str] = field(default_factory=set)

    def write(self, rows: pa.Table) -> None:
        """Append rows, in their order."""
        if not rows.num_rows:
            return
        if self._writer is None:
            self._writer = self._open()
        for name in self.bounded:
            self._widen(name, rows[name])
        written = self._written_schema
        self._writer.write_table(rows.select(written.names).cast(written), row_group_size=self.group_rows)
        self._rows += rows.num_rows

    @property
    def _written_schema(self) -> pa.Schema:
        return pa.schema([*self.schema, *self.beside])

    def _open(self) -> pq.ParquetWriter:
        folder = "".join(f"{name}={value}/" for name, value in self.partition_values.items())
        self._path = f"{folder}{self.name}-{uuid4()}.parquet"
        self._upload = self.place.storage().create(self._path)
        stream = self._upload.stream
        return pq.ParquetWriter(
            stream,
            self._written_schema,
            compression="zstd",
            compression_level=1,
            write_page_checksum=True,
            **self._encodings(),
        )

    def _encodings(self) -> dict[str, Any]:
        """Dictionaries only where values repeat: for distinct values a dictionary is slower to write and to read."""
        deltas = [name for name in self.bounded if self.in_log_order and _is_wide(self.schema.field(name).type)]
        plain = [field.name for field in self.beside]
        if not deltas and not plain:
            return {}
        paths = _leaf_paths(self._written_schema)
        return {
            "use_dictionary": [path for path in paths if path not in deltas and path not in plain],
            "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED") | dict.fromkeys(plain, "PLAIN"),
        }

    def _widen(self, name: str, rows: pa.ChunkedArray) -> None:
        seen = _bounds(rows)
        if seen is None:
            self._unbounded.add(name)
        elif seen["min"] is not None:
            low, high = self._bounds.get(name, (seen["min"], seen["max"]))
            self._bounds[name] = (min(low, seen["min"]), max(high, seen["max"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._writer is None:
            return
        assert self._upload is not None
        with self._upload:
            self._writer.close()  # writes the footer and leaves the stream open; the file exists once the stream is closed
            if kind is not None:
                self._upload.abort()
                return
            size = self._upload.close()
        bounds = {
            name: both
            for name, both in self._bounds.items()
            if name not in self._unbounded and not (isinstance(both[0], str) and max(map(len, both)) > _SHORT)
        }
        milliseconds = int(clock.now().timestamp() * 1000)  # also reports errors of the file system
        self.written = Written(self._path, size, self._rows, bounds, self.partition_values, milliseconds)


def _is_wide(kind: pa.DataType) -> bool:
    return bool(pa.types.is_int64(kind) or pa.types.is_timestamp(kind))


def _leaf_paths(schema: pa.Schema) -> list[str]:
    """The names of the columns in a Parquet file of this schema: those of a nested type are several."""
    stream = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([], schema), stream)
    columns = pq.ParquetFile(pa.BufferReader(stream.getvalue())).schema
    return [columns.column(n).path for n in range(len(columns))]


def _bounds(rows: pa.ChunkedArray) -> dict[str, Any] | None:
    """The smallest and largest value; None if one is a time that Delta's statistics cannot express."""
    if rows.type == TIMESTAMP:
        known = pc.min_max(rows.cast(pa.int64())).as_py()
        if known["min"] is not None and not FIRST <= known["min"] <= known["max"] <= LAST:
            return None
    found: dict[str, Any] = pc.min_max(rows).as_py()
    return found


def _json(value: Any) -> Any:
    """A bound in the form of Delta's statistics, whose times are UTC."""
    if isinstance(value, datetime):
        # Not strftime, which does not pad a year below 1000 everywhere.
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    return value
