"""A PostgreSQL table as a sink's target: rows and token are one transaction.

Tokens are rows of the table `tandem_sink_tokens` beside the target. Each also names the target's storage, so a target that was
dropped, restored or truncated since then has no token. The unique index over keys and window takes NULL for a value, which needs
PostgreSQL 15.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg
import pyarrow as pa
from psycopg.conninfo import conninfo_to_dict
from psycopg.sql import SQL, Composable, Composed, Identifier

from tandem.ledger.delta.errors import Conflict, Unreadable, Unwritable
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkInProject, SinkRefused
from tandem.views.arrow import python_values
from tandem.views.errors import TandemError
from tandem.views.kernel.rows import written
from tandem.views.sinks.postgres_table import PostgresTable
from tandem.views.view import answer_schema

TOKENS: Final = "tandem_sink_tokens"
WAIT_S: Final = 30
"""Seconds to wait for a lock of another transaction, and for a server that does not answer."""

_OLDEST: Final = 150_000
_OPTIONS: Final[dict[str, Any]] = {
    "application_name": "tandem sink",
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": WAIT_S * 1000,
    "options": f"-c TimeZone=UTC -c lock_timeout={WAIT_S}s",
}
_JSON: Final = "jsonb"
_TYPES: Final[tuple[tuple[Any, str], ...]] = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_string, "text"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamp with time zone"),
    (pa.types.is_nested, _JSON),
)
_INDEX: Final = "tandem_sink_"
_TYPE: Final = b"postgres"
"""The metadata of a converted column: its type, as PostgreSQL's catalogue writes it."""


def check_target(defined: SinkInProject) -> None:
    """Raise SinkRefused for a type that PostgreSQL lacks."""
    postgres_schema(defined.sink.name, answer_schema(defined.view))


def open_target(defined: SinkInProject) -> "PostgresTarget":
    """Connect to the server. Raises SinkRefused for a variable that is not set and for an old server, Unreadable."""
    assert isinstance(defined.sink.to, PostgresTable)
    return connect_to(defined.sink.name, defined.sink.to, os.environ)


def connect_to(name: str, to: PostgresTable, environ: Mapping[str, str]) -> "PostgresTarget":
    """Connect to the server of a sink's table. Raises as `open_target`."""
    dsn = to.dsn
    if dsn.startswith("$"):
        if dsn[1:] not in environ:
            raise SinkRefused(f"sink {name!r}: the environment has no variable {dsn[1:]} with the connection of PostgreSQL")
        dsn = environ[dsn[1:]]
    _check_connection(name, f"variable {to.dsn[1:]}" if to.dsn.startswith("$") else "dsn", dsn)
    try:
        connection = psycopg.connect(dsn, autocommit=True, **_OPTIONS)
        (schema,) = connection.execute("SELECT current_schema()").fetchone() or (None,)
    except psycopg.Error as error:
        raise Unreadable(f"sink {name!r}: cannot connect to PostgreSQL: {_reason(error)}") from error
    if connection.info.server_version < _OLDEST:
        version = connection.info.server_version // 10_000
        connection.close()
        raise SinkRefused(f"sink {name!r}: the server is PostgreSQL {version}; a sink needs 15 or newer")
    before, _, table = to.table.rpartition(".")
    if not (schema := before or schema):
        connection.close()
        raise SinkRefused(f"sink {name!r}: the connection has no schema; name the table as schema.{table}")
    return PostgresTarget(name, schema, table, connection)


def _check_connection(name: str, of: str, dsn: str) -> None:
    """Raise SinkRefused for a text that libpq does not read, and for an @ of a password in the host.

    libpq's own words have a piece of the text, which may be the password.
    """
    try:
        hosts = str(conninfo_to_dict(dsn).get("host") or "").split(",")
    except psycopg.ProgrammingError:
        raise SinkRefused(
            f"sink {name!r}: {of} is not a connection such as 'host=db dbname=sales user=tandem' or 'postgresql://tandem@db/sales'"
        ) from None
    if any("@" in host[1:] for host in hosts):  # a socket without a file begins with one
        raise SinkRefused(f"sink {name!r}: {of} has an @ in its host; in a password write it as %40")


def postgres_schema(name: str, columns: pa.Schema) -> pa.Schema:
    """The columns of a view's rows as they are sent, each with its type in PostgreSQL. Lists and structs are JSON.

    Raises SinkRefused for a type that PostgreSQL lacks.
    """
    fields = []
    for column in columns:
        kind: str | None = next((text for is_, text in _TYPES if is_(column.type)), None)
        if pa.types.is_decimal(column.type):
            kind = f"numeric({column.type.precision},{column.type.scale})"
        if kind is None:
            raise SinkRefused(f"sink {name!r}: PostgreSQL has no type for column {column.name!r}, {column.type}")
        fields.append(pa.field(column.name, pa.string() if kind == _JSON else column.type, metadata={_TYPE: kind}))
    return pa.schema(fields)


@dataclass(frozen=True)
class _Stored:
    """The row of a target in the table of tokens."""

    token: str
    storage: str


@dataclass
class PostgresTarget:
    """The table of a sink. Open it by `connect_to`. The step of a second process of the sink is refused as a conflict."""

    name: str
    schema: str
    table: str
    connection: psycopg.Connection[Any] = field(repr=False)
    _stored: _Stored | None = None
    _indexed: bool = False

    def token(self) -> str | None:
        """The token, if it is of the table as it is stored. Raises SinkRefused for rows of other programs, Unreadable."""
        with self._transaction(Unreadable) as cursor:
            storage, self._stored = self._storage(cursor), self._token_row(cursor)
            if self._stored is not None:
                return self._stored.token if self._stored.storage == storage else None
            if storage and self._run(cursor, "SELECT 1 FROM {table} LIMIT 1").fetchone():
                raise SinkRefused(f"sink {self.name!r}: table {self} has rows that no sink has written; name a new table for it")
            return None

    def newest(self) -> str | None:
        """The stored token, whatever table it is of. Raises Unreadable."""
        with self._transaction(Unreadable) as cursor:
            stored = self._token_row(cursor)
        return None if stored is None else stored.token

    def convert(self, rows: pa.Table) -> pa.Table:
        """The rows in PostgreSQL's types; JSON in one spelling, so that equal values are equal texts."""
        schema = postgres_schema(self.name, rows.schema)
        columns = [
            _json_column(written(column.combine_chunks(), before)) if _type(after) == _JSON else column
            for column, before, after in zip(rows.columns, rows.schema, schema, strict=True)
        ]
        return pa.Table.from_arrays(columns, schema=schema)

    def content(self, columns: pa.Schema, identity: Sequence[str]) -> pa.Table | None:
        """The rows of the table; None if it does not exist, has other columns, or two rows of one identity.

        Raises SinkRefused if somebody has created it with other columns and no sink has written it yet, Unreadable.
        """
        with self._transaction(Unreadable) as cursor:
            if not self._storage(cursor):
                return None
            before, after = self._columns(cursor), _types(columns)
            if before != after:
                if self._stored is None:
                    raise SinkRefused(f"sink {self.name!r}: table {self} {_difference(before, after)}")
                return None
            rows = self._run(cursor, "SELECT {names} FROM {table}", names=_column_list(columns.names)).fetchall()
        values = zip(*rows, strict=True) if rows else [()] * len(columns)
        arrays = [
            _json_column(of_column) if _type(column) == _JSON else python_values.array(of_column, column.type)
            for column, of_column in zip(columns, values, strict=True)
        ]
        content = pa.Table.from_arrays(arrays, schema=columns)
        # The index was over the keys of the view at the step before, which a promote may have changed.
        return content if content.group_by(identity).aggregate([]).num_rows == content.num_rows else None

    def write(self, rows: pa.Table, gone: pa.Table, stamp: Stamp) -> None:
        """Write and delete rows in one transaction. Raises Conflict, SinkRefused, Unwritable."""
        group = gone.column_names
        with self._step(stamp.text) as cursor:
            if not self._indexed:
                self._drop_indexes(cursor, but=self._index(group))
                self._run(
                    cursor,
                    "CREATE UNIQUE INDEX IF NOT EXISTS {index} ON {table} ({group}) NULLS NOT DISTINCT",
                    index=Identifier(self._index(group)),
                    group=_column_list(group),
                )
            # A condition of its own for each set of NULL keys: `IS NOT DISTINCT FROM` would read the whole table for a row.
            for nulls, places in _by_nulls(gone).items():
                tests = [
                    SQL("{} IS NULL" if null else "{} = %s").format(Identifier(name))
                    for name, null in zip(group, nulls, strict=True)
                ]
                statement = self._statement("DELETE FROM {table} WHERE {same}", same=SQL(" AND ").join(tests))
                cursor.executemany(statement, places)
            statement = self._statement(
                "INSERT INTO {table} ({names}) VALUES ({values}) ON CONFLICT ({group}) DO UPDATE SET {changes}",
                names=_column_list(rows.column_names),
                values=SQL(", ").join([SQL("%s")] * rows.num_columns),
                group=_column_list(group),
                changes=SQL(", ").join(
                    SQL("{0} = EXCLUDED.{0}").format(Identifier(name)) for name in rows.column_names if name not in group
                ),
            )
            cursor.executemany(statement, _tuples(rows))
        self._indexed = True

    def replace(self, rows: pa.Table, identity: Sequence[str], stamp: Stamp) -> None:  # noqa: ARG002 - `write` creates the index
        """Replace all rows, and the columns that differ, in one transaction; the first one creates the table. Raises as `write`.

        Readers of an earlier snapshot keep its rows: `DELETE` leaves them, and PostgreSQL's `TRUNCATE` would show an empty table.
        """
        after, self._indexed = _types(rows.schema), False
        with self._step(stamp.text) as cursor:
            before = self._columns(cursor)
            self._drop_indexes(cursor)
            self._run(cursor, "DELETE FROM {table}")
            changes = [SQL("DROP COLUMN {}").format(Identifier(name)) for name in before if before[name] != after.get(name)]
            changes += [
                SQL("ADD COLUMN {} {}").format(Identifier(name), SQL(after[name]))
                for name in after
                if before.get(name) != after[name]
            ]
            if changes:
                self._run(cursor, "ALTER TABLE {table} {changes}", changes=SQL(", ").join(changes))
            statement = self._statement("COPY {table} ({names}) FROM STDIN", names=_column_list(rows.column_names))
            with cursor.copy(statement) as copy:
                for row in _tuples(rows):
                    copy.write_row(row)

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    def __str__(self) -> str:
        return f"{self.schema}.{self.table}"

    def _index(self, group: Sequence[str]) -> str:
        """The name of the unique index over these columns: shorter than 63 bytes, where PostgreSQL would cut it."""
        return f"{_INDEX}{hashlib.sha256(repr((self.table, *group)).encode()).hexdigest()[:16]}"

    def _drop_indexes(self, cursor: psycopg.Cursor[Any], but: str = "") -> None:
        """Drop the unique indexes of sinks on the table: those over other keys refuse rows of this view."""
        names = cursor.execute(
            "SELECT indexname FROM pg_indexes WHERE schemaname = %s AND tablename = %s AND starts_with(indexname, %s)",
            (self.schema, self.table, _INDEX),
        ).fetchall()
        for (name,) in names:
            if name != but:
                self._run(cursor, "DROP INDEX {index}", index=Identifier(self.schema, name))

    @contextmanager
    def _step(self, token: str) -> Iterator[psycopg.Cursor[Any]]:
        """A transaction in which the table exists and has the token at the end, unless another process has written meanwhile."""
        with self._transaction(Unwritable) as cursor:
            self._run(cursor, "CREATE TABLE IF NOT EXISTS {table} ()")
            self._run(
                cursor,
                "CREATE TABLE IF NOT EXISTS {tokens} (target text PRIMARY KEY, token text NOT NULL, storage text NOT NULL)",
            )
            if self._token_row(cursor, lock=True) != self._stored:
                raise Conflict(f"sink {self.name!r}: another process has written to table {self}")
            yield cursor
            stored = _Stored(token, self._storage(cursor))
            written_row = self._run(
                cursor,
                "INSERT INTO {tokens} VALUES (%(target)s, %(token)s, %(storage)s)"
                + (
                    " ON CONFLICT (target) DO UPDATE SET token = EXCLUDED.token, storage = EXCLUDED.storage"
                    if self._stored
                    else ""
                ),
                parameters={"target": self.table, "token": stored.token, "storage": stored.storage},
            )
            assert written_row.rowcount == 1
        self._stored = stored

    @contextmanager
    def _transaction(self, failure: type[TandemError]) -> Iterator[psycopg.Cursor[Any]]:
        try:
            with self.connection.transaction(), self.connection.cursor() as cursor:
                yield cursor
        except (psycopg.errors.UniqueViolation, psycopg.errors.SerializationFailure) as error:
            raise Conflict(f"sink {self.name!r}: another process has written to table {self}") from error
        except (psycopg.DataError, psycopg.NotSupportedError) as error:
            raise SinkRefused(f"sink {self.name!r}: table {self} cannot hold a value: {_reason(error)}") from error
        except psycopg.Error as error:
            raise failure(f"sink {self.name!r}: table {self} of PostgreSQL: {_reason(error)}") from error

    def _statement(self, text: LiteralString, **parts: Composable) -> Composed:
        return SQL(text).format(table=Identifier(self.schema, self.table), tokens=Identifier(self.schema, TOKENS), **parts)

    def _run(
        self, cursor: psycopg.Cursor[Any], text: str, parameters: Mapping[str, Any] | None = None, **parts: Composable
    ) -> psycopg.Cursor[Any]:
        return cursor.execute(self._statement(text, **parts), parameters)

    def _storage(self, cursor: psycopg.Cursor[Any]) -> str:
        """What changes if the table is dropped and created, or truncated; empty if it does not exist."""
        row = cursor.execute(
            "SELECT c.oid, pg_relation_filenode(c.oid) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s",
            (self.schema, self.table),
        ).fetchone()
        return f"{row[0]}/{row[1]}" if row else ""

    def _token_row(self, cursor: psycopg.Cursor[Any], *, lock: bool = False) -> _Stored | None:
        there = cursor.execute(
            "SELECT 1 FROM pg_tables WHERE schemaname = %s AND tablename = %s", (self.schema, TOKENS)
        ).fetchone()
        if not there:
            return None
        text = f"SELECT token, storage FROM {{tokens}} WHERE target = %(target)s{' FOR UPDATE' if lock else ''}"
        row = self._run(cursor, text, {"target": self.table}).fetchone()
        return _Stored(*row) if row else None

    def _columns(self, cursor: psycopg.Cursor[Any]) -> dict[str, str]:
        """The types of the table's columns by name, as the catalogue writes them."""
        rows = cursor.execute(
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname = %s AND c.relname = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum",
            (self.schema, self.table),
        )
        return dict(rows.fetchall())


def _column_list(names: Sequence[str]) -> Composed:
    return SQL(", ").join(map(Identifier, names))


def _type(column: pa.Field) -> str:
    return str(column.metadata[_TYPE].decode())


def _types(columns: pa.Schema) -> dict[str, str]:
    return {column.name: _type(column) for column in columns}


def _difference(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """The first difference of a table's columns from those that a sink needs, in words."""
    for name, kind in after.items():
        if before.get(name) != kind:
            has = f"has column {name!r} as {before[name]}" if name in before else f"lacks column {name!r}"
            return f"{has}; expected {kind}"
    extra = next(name for name in before if name not in after)
    return f"has a column {extra!r} that the view lacks; drop it, or name a new table"


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _by_nulls(places: pa.Table) -> dict[tuple[bool, ...], list[list[Any]]]:
    """The values that identify rows, without their NULLs, by which of them are NULL."""
    groups: dict[tuple[bool, ...], list[list[Any]]] = {}
    for row in _tuples(places):
        groups.setdefault(tuple(value is None for value in row), []).append([value for value in row if value is not None])
    return groups


def _json_column(values: Sequence[Any]) -> pa.Array:
    """Values as JSON texts, each in the spelling that it has after it was stored: jsonb has one kind of number."""
    return python_values.array(
        [None if value is None else json.dumps(_spelling(value), sort_keys=True) for value in values], pa.string()
    )


def _spelling(value: Any) -> Any:
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_spelling(part) for part in value]
        case dict():
            return {name: _spelling(part) for name, part in value.items()}
        case _:
            return value


def _reason(error: psycopg.Error) -> str:
    """The first line of what the server or the client says."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
