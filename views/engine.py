"""The DuckDB that computes every number: in memory, one connection per thread, locked down, the same everywhere.

Nothing is stored in it and it reaches nothing outside: tables are lent to it for its statements. What a statement gives
depends on the statement and the tables alone: the zone is UTC, one thread, no file, no extension.
"""

import threading
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import duckdb
import pyarrow as pa

from views import halving

_LOCKED_DOWN: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,  # Spark runs one task per core; a second thread here would take it from a neighbour.
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # A name in a statement never means a variable of the caller.
    "preserve_insertion_order": "false",
}
_ALL_ROWS: Final = 1 << 20


@dataclass
class _Engine:
    """A connection and the tables lent to it."""

    connection: duckdb.DuckDBPyConnection
    lent: dict[str, pa.Table] = field(default_factory=dict)


_thread = threading.local()


def _engine() -> _Engine:
    """This thread's engine, made at its first use: that costs some 20 ms, a statement 1 ms."""
    engine: _Engine | None = getattr(_thread, "engine", None)
    if engine is None:
        connection = duckdb.connect(":memory:", config=_LOCKED_DOWN)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        engine = _thread.engine = _Engine(connection)
    return engine


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection, for questions that are asked once, such as the type of an expression."""
    return _engine().connection


def query(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of one statement over the named tables. Raises duckdb.Error.

    A table stays lent until another takes its name or `take_back` is called, because a trigger asks many statements of
    the same events and lending costs half a millisecond.
    """
    engine = _engine()
    for name, table in tables.items():
        if engine.lent.get(name) is not table:
            engine.connection.register(name, table)
            engine.lent[name] = table
    # Not connection.sql(), which DuckDB's warning asks for: it binds a statement twice, and small ones cost nothing else.
    result = engine.connection.execute(sql)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Arrow output on a DB-API result", category=UserWarning)
        rows: pa.Table = result.to_arrow_reader(_ALL_ROWS).read_all()  # type: ignore[union-attr]  # None is for no result
        return rows


def halved(sql: str, name: str, rows: pa.Table) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """The rows in pieces, each with the statement's result over it; None beside a single row for which the statement fails.

    DuckDB's TRY lets some failures through, such as that of a zone nobody knows. Raises duckdb.OutOfMemoryException.
    """
    return halving.halved(lambda piece: query(sql, {name: piece}), rows, _is_of_rows)


def _is_of_rows(error: BaseException) -> bool:
    return isinstance(error, duckdb.Error) and not isinstance(error, duckdb.OutOfMemoryException)


def take_back(*names: str) -> None:
    """Let go of lent tables, so that their memory is freed."""
    engine = _engine()
    for name in names:
        if engine.lent.pop(name, None) is not None:
            engine.connection.unregister(name)


def quoted(name: str) -> str:
    """The name as a SQL identifier; DuckDB reserves `offset`, `user`, `partition` and many others."""
    return '"' + name.replace('"', '""') + '"'
