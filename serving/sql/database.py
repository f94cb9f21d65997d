"""The database of one statement: empty, in memory, without access to anything outside, its configuration locked."""

from collections.abc import Mapping
from typing import Final

import duckdb
import pyarrow as pa

from tandem.serving.sql.arrow_casts import representable
from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.refusal import StatementRefused
from tandem.serving.sql.sketch_functions import register
from tandem.serving.sql.statement import worded

_CLOSED: Final[dict[str, str | bool | int | float | list[str]]] = {
    # Only the process's own thread: a fork of a process with several threads may deadlock.
    "threads": 1,
    "async_threads": 0,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "allow_unsigned_extensions": "false",
    "python_enable_replacements": "false",
    "python_scan_all_frames": "false",
    "temp_directory": "",
}
_PIECE: Final = 2048


class _View:
    """A table that DuckDB reads in its place, as often as a statement names it."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_schema__(self) -> object:
        return self._table.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)


def connect(limits: StatementLimits) -> duckdb.DuckDBPyConnection:
    """An empty database with the functions over sketch states."""
    connection = duckdb.connect(":memory:", config={**_CLOSED, "memory_limit": f"{limits.memory // MIB}MiB"})
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    register(connection)
    connection.execute("SET lock_configuration = true")
    return connection


def run(
    connection: duckdb.DuckDBPyConnection, statement: str, tables: Mapping[str, pa.Table], limits: StatementLimits
) -> tuple[int, pa.Buffer]:
    """The number of rows that a statement returns over the tables, and the rows as an Arrow stream. Raises Refused."""
    try:
        for name, table in tables.items():
            connection.register(name, _View(table))
        connection.execute("BEGIN TRANSACTION READ ONLY")
        relation = connection.sql(statement)
        if relation is None:
            raise StatementRefused("the statement returns no rows; expected exactly one SELECT", "statement")
        return _collected(representable(relation).to_arrow_reader(_PIECE), limits)
    except (duckdb.OutOfMemoryException, MemoryError, pa.ArrowMemoryError):
        raise StatementRefused(f"the statement needs more than its {limits.memory // MIB} MiB of memory", "limit") from None
    except (duckdb.Error, pa.ArrowException, RuntimeError, ValueError) as error:
        if "bad_alloc" in str(error) or "allocate" in str(error):
            raise StatementRefused(f"the statement needs more than its {limits.memory // MIB} MiB of memory", "limit") from None
        raise StatementRefused(worded(error), "statement") from None


def _collected(reader: pa.RecordBatchReader, limits: StatementLimits) -> tuple[int, pa.Buffer]:
    sink, rows = pa.BufferOutputStream(), 0
    with pa.ipc.new_stream(sink, reader.schema) as stream:
        for batch in reader:
            rows += batch.num_rows
            if rows > limits.rows:
                raise StatementRefused(f"the result has more than {limits.rows} rows; add a LIMIT, or aggregate", "limit")
            _refuse_other_times(batch)
            stream.write_batch(batch)
            if sink.tell() > limits.bytes:
                raise StatementRefused(
                    f"the result has more than {limits.bytes // MIB} MiB; choose fewer columns or rows", "limit"
                )
    return rows, sink.getvalue()


def _refuse_other_times(batch: pa.RecordBatch) -> None:
    """Raise Refused for 24:00:00, the only time that Arrow cannot hold."""
    try:
        batch.validate(full=True)
    except pa.ArrowInvalid:
        raise StatementRefused(
            "the result has the time 24:00:00, which few programs support; CAST it AS VARCHAR", "statement"
        ) from None
