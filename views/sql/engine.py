"""The DuckDB that computes every number: in memory, one connection per thread, locked down, the same everywhere.

It stores nothing and has no access to files, network or extensions: tables are registered for the time of a statement. The result
of a statement depends on the statement and the tables alone: the time zone is UTC, and there is one thread.
"""

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import duckdb
import pyarrow as pa

from tandem.views.arrow import arrays

_LOCKED_DOWN: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,  # Spark runs one task per core; a second thread here would take the core of another task.
    "async_threads": 0,  # No threads that read in the background (eight per connection): tables are in memory.
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # Without this, a name in a statement could mean a Python variable of the caller.
    "preserve_insertion_order": "false",
}
_ALL_ROWS: Final = 1 << 20
_COPIED: Final = "Arrow output on a DB-API result"
"""DuckDB warns that this copies rows once more than a relation. But a relation would be planned again each time."""
PLANNED: Final = 1 << 18
"""Most characters of the statements whose plans are cached: a plan takes about 240 bytes per character, so a thread's about 60
MB."""
SCHEMAS: Final = 512


class _Lent:
    """The table behind a name while a statement runs: DuckDB asks it for the rows each time."""

    def __init__(self, schema: pa.Schema) -> None:
        self._nothing = pa.Table.from_batches([], schema=schema)  # empty_table() imports pandas
        self.table = self._nothing

    def take_back(self) -> None:
        self.table = self._nothing

    def __arrow_c_schema__(self) -> object:
        return self._nothing.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


@dataclass
class _Engine:
    """A connection, its registered tables by name and schema, and its cached plans, the most recently used last."""

    connection: duckdb.DuckDBPyConnection
    lent: dict[tuple[str, pa.Schema], tuple[str, _Lent]] = field(default_factory=dict)
    planned: OrderedDict[str, str] = field(default_factory=OrderedDict)
    characters: int = 0
    names: int = 0

    def name(self) -> str:
        """A name that this engine has not used before."""
        self.names += 1
        return f"_{self.names}"

    def lend(self, name: str, schema: pa.Schema) -> tuple[str, _Lent]:
        """The registered table for this name and schema, and its name in DuckDB: a plan is for one schema."""
        if (name, schema) not in self.lent:
            own, lent = self.name(), _Lent(schema)
            self.connection.register(own, lent)
            self.lent[name, schema] = own, lent
        return self.lent[name, schema]

    def plan(self, sql: str) -> str:
        """The name of the prepared statement."""
        if sql in self.planned:
            self.planned.move_to_end(sql)
            return self.planned[sql]
        name = self.name()
        self.connection.execute(f"PREPARE {name} AS {sql}")
        self.planned[sql] = name
        self.characters += len(sql)
        while self.characters > PLANNED and len(self.planned) > 1:
            oldest, unused = self.planned.popitem(last=False)
            self.connection.execute(f"DEALLOCATE {unused}")
            self.characters -= len(oldest)
        return name


_thread = threading.local()


def hide_progress_bar(connection: duckdb.DuckDBPyConnection) -> None:
    """Keep DuckDB's bar, which comes after two seconds, out of what the caller prints.

    In a kernel of Jupyter without ipywidgets there is none, and DuckDB refuses to change the setting.
    """
    if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()[0][0]:
        connection.execute("SET enable_progress_bar = false")


def _engine() -> _Engine:
    """This thread's engine; made at the first use, and again after too many schemas. Making one takes about 20 ms."""
    engine: _Engine | None = getattr(_thread, "engine", None)
    if engine is None or len(engine.lent) > SCHEMAS:
        connection = duckdb.connect(":memory:", config=_LOCKED_DOWN)
        connection.execute("SET TimeZone = 'UTC'")
        hide_progress_bar(connection)
        connection.execute("SET lock_configuration = true")
        # Set once: the list of filters belongs to the whole process, so threads that change it for each query would mix theirs
        # up.
        warnings.filterwarnings("ignore", message=_COPIED, category=UserWarning)
        engine = _thread.engine = _Engine(connection)
    return engine


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection, for statements that run once, such as one for the type of an expression."""
    return _engine().connection


def query(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of one SELECT over the named tables, which are registered while it runs. Raises duckdb.Error.

    Micro-batches run the same statements over few events again and again, where planning costs more than running. So each is
    planned once for tables of these schemas.
    """
    engine = _engine()
    lent = {name: engine.lend(name, table.schema) for name, table in tables.items()}
    # NOT MATERIALIZED: else DuckDB copies a table of WITH that a statement reads twice.
    named = ", ".join(f"{quoted(name)} AS NOT MATERIALIZED (FROM {own})" for name, (own, _) in lent.items())
    planned = engine.plan(f"WITH {named} {sql}" if named else sql)
    try:
        for name, (_, stand_in) in lent.items():
            stand_in.table = tables[name]
        result = engine.connection.execute(f"EXECUTE {planned}")
        rows: pa.Table = result.to_arrow_reader(_ALL_ROWS).read_all()  # type: ignore[union-attr]  # None is for no result
        return rows
    finally:
        for _, stand_in in lent.values():
            stand_in.take_back()


def halved(
    sql: str, name: str, rows: pa.Table, beside: Mapping[str, pa.Table] | None = None
) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """The rows in pieces, each with the statement's result over it; the result is None for a single row where the statement
    fails. The tables `beside` stay whole.

    It halves the rows until the statement succeeds, because DuckDB's TRY does not catch all failures, such as an unknown time
    zone.

    Raises:
        duckdb.OutOfMemoryException: too little memory.
        duckdb.Error: the statement itself is wrong: it fails over zero rows, or cannot read the table.
    """
    return arrays.halved(lambda piece: query(sql, {name: piece, **(beside or {})}), rows, _is_of_rows)


def _is_of_rows(error: BaseException) -> bool:
    return isinstance(error, duckdb.Error) and not isinstance(error, duckdb.OutOfMemoryException)


def quoted(name: str) -> str:
    """The name as a SQL identifier; DuckDB reserves `offset`, `user`, `partition` and many others."""
    return '"' + name.replace('"', '""') + '"'


def readable(columns: pa.Schema) -> pa.Schema:
    """The columns as a statement reads them: doubles for totals of more than 38 digits, which DuckDB lacks."""
    return pa.schema([field.with_type(_readable(field.type)) for field in columns])


def _readable(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([part.with_type(_readable(part.type)) for part in type_])
    return pa.float64() if pa.types.is_decimal256(type_) else type_
