"""The database of one statement: empty, in memory, without access to anything outside, its configuration locked.

Results whose values every format supports: values that Arrow cannot hold, or holds with another meaning, are cast first.

| DuckDB                                         | becomes        | since Arrow                                       |
| ---------------------------------------------- | -------------- | ------------------------------------------------- |
| HUGEINT, UHUGEINT                              | DECIMAL(38, 0) | has 38 digits, and more became another number     |
| INTERVAL                                       | VARCHAR        | counts nanoseconds, and more became another time  |
| TIME WITH TIME ZONE                            | VARCHAR        | has no zones of times                             |
| BIT, BIGNUM, TYPE                              | VARCHAR        | has bytes of DuckDB's own, or nothing, for them   |
| VARIANT                                        | JSON           | has bytes that few readers know                   |

The same inside lists, arrays, structs, maps and unions. A number that has more digits is refused by the cast.
"""

from collections.abc import Mapping
from typing import Any, Final

import duckdb
import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.messages import StatementRefused
from tandem.serving.sql.sketch_functions import register
from tandem.serving.sql.statement import worded
from tandem.views.sql.engine import hide_progress_bar, quoted

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
    hide_progress_bar(connection)
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


_INSTEAD: Final = {
    **dict.fromkeys(("hugeint", "uhugeint"), "DECIMAL(38,0)"),
    **dict.fromkeys(("interval", "time with time zone", "bit", "bignum", "type"), "VARCHAR"),
    "variant": "JSON",
}


def representable(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The relation with columns of such types alone; itself if it has no others."""
    types = [_sql(kind) for kind in relation.types]
    if all(sql is None for sql in types):
        return relation
    columns = [
        f"{f'#{place}' if sql is None else f'CAST(#{place} AS {sql})'} AS {quoted(name)}"  # two columns may have one name
        for place, (name, sql) in enumerate(zip(relation.columns, types, strict=True), 1)
    ]
    return relation.project(", ".join(columns))


def _sql(kind: DuckDBPyType) -> str | None:
    """The SQL of the type that a type is cast to; None if it stays as it is."""
    name = str(kind.id)
    if name in _INSTEAD:
        return _INSTEAD[name]
    if name not in ("list", "array", "struct", "tuple", "map", "union"):
        return None
    children: list[tuple[str, Any]] = kind.children
    parts = dict(children) if name != "tuple" else {f"element{n}": part for n, (_, part) in enumerate(children, 1)}
    size = parts.pop("size") if name == "array" else ""
    if name == "union":
        del parts[""]  # says which of the others there is
    inner = {part: _sql(of) for part, of in parts.items()}
    if all(sql is None for sql in inner.values()):
        return None
    written = {part: sql or str(parts[part]) for part, sql in inner.items()}
    if name in ("list", "array"):
        return f"{written['child']}[{size}]"
    if name == "map":
        return f"MAP({written['key']}, {written['value']})"
    kept = ", ".join(f"{quoted(part)} {sql}" for part, sql in written.items())
    return f"{'UNION' if name == 'union' else 'STRUCT'}({kept})"
