"""The DuckDB that computes every number: in memory, one connection per thread, locked down, the same everywhere.

Nothing is stored in it and it reaches nothing outside: tables are lent to it for its statements. What a statement gives
depends on the statement and the tables alone: the zone is UTC, one thread, no file, no extension.
"""

import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import duckdb
import pyarrow as pa

from views.arrow import bisect

_LOCKED_DOWN: Final[dict[str, str | bool | int | float | list[str]]] = {
    "threads": 1,  # Spark runs one task per core; a second thread here would take it from a neighbour.
    "async_threads": 0,  # Tables are in memory: nothing is read in the background, for which each connection has eight threads.
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # A name in a statement never means a variable of the caller.
    "preserve_insertion_order": "false",
}
_ALL_ROWS: Final = 1 << 20
_COPIED: Final = "Arrow output on a DB-API result"
"""DuckDB warns that this copies rows once more than a relation would, whose plan would be made again each time."""
PLANNED: Final = 1 << 18
"""Characters of the statements whose plans are kept: a plan takes some 240 bytes for each, so all of a thread's some 60 MB."""
SCHEMAS: Final = 512


class _Lent:
    """What a name stands for while a statement runs: DuckDB asks it for the rows again each time."""

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
    """A connection, what stands in it for tables of a name and schema, and what it has planned, the latest used last."""

    connection: duckdb.DuckDBPyConnection
    lent: dict[tuple[str, pa.Schema], tuple[str, _Lent]] = field(default_factory=dict)
    planned: OrderedDict[str, str] = field(default_factory=OrderedDict)
    characters: int = 0
    names: int = 0

    def name(self) -> str:
        """A name that nothing in this engine has had."""
        self.names += 1
        return f"_{self.names}"

    def lend(self, name: str, schema: pa.Schema) -> tuple[str, _Lent]:
        """What stands for tables of this name and schema, and what DuckDB calls it: a plan is for one schema."""
        if (name, schema) not in self.lent:
            own, lent = self.name(), _Lent(schema)
            self.connection.register(own, lent)
            self.lent[name, schema] = own, lent
        return self.lent[name, schema]

    def plan(self, sql: str) -> str:
        """The name under which a statement is ready to run."""
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


def _engine() -> _Engine:
    """This thread's engine, made at its first use and whenever it has seen too many schemas: that costs some 20 ms."""
    engine: _Engine | None = getattr(_thread, "engine", None)
    if engine is None or len(engine.lent) > SCHEMAS:
        connection = duckdb.connect(":memory:", config=_LOCKED_DOWN)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        # Once, for the list of filters belongs to the whole process: threads that set it back from query to query mix theirs up.
        warnings.filterwarnings("ignore", message=_COPIED, category=UserWarning)
        engine = _thread.engine = _Engine(connection)
    return engine


def connection() -> duckdb.DuckDBPyConnection:
    """This thread's connection, for questions that are asked once, such as the type of an expression."""
    return _engine().connection


def query(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The result of one SELECT over the named tables, which are lent to it while it runs. Raises duckdb.Error.

    A trigger asks the same statements of few events again and again, and their plans cost more than their rows: each is
    planned once for tables of these schemas.
    """
    engine = _engine()
    lent = {name: engine.lend(name, table.schema) for name, table in tables.items()}
    # NOT MATERIALIZED: DuckDB copies what a statement names by WITH and reads twice.
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


def halved(sql: str, name: str, rows: pa.Table) -> Iterator[tuple[pa.Table, pa.Table | None]]:
    """The rows in pieces, each with the statement's result over it; None beside a single row for which the statement fails.

    DuckDB's TRY lets some failures through, such as that of a zone nobody knows. Raises duckdb.OutOfMemoryException, and
    duckdb.Error for a statement that fails over zero rows, or that cannot read the table: that is a defect of the statement.
    """
    return bisect.halved(lambda piece: query(sql, {name: piece}), rows, _is_of_rows)


def _is_of_rows(error: BaseException) -> bool:
    return isinstance(error, duckdb.Error) and not isinstance(error, duckdb.OutOfMemoryException)


def quoted(name: str) -> str:
    """The name as a SQL identifier; DuckDB reserves `offset`, `user`, `partition` and many others."""
    return '"' + name.replace('"', '""') + '"'
