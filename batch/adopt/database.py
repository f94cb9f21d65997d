"""A table of PostgreSQL as history: Spark reads it by one query, which sees one state of the table.

A database table has no versions: what was read has the number of rows and the sum of their hashes as its content. So a table that
has other rows later is refused, because nothing says which of them are new.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from tandem.batch.adopt.table import NO_FOLDER, HistoryTable, NotAdopted
from tandem.batch.runtime.session import BatchRun
from tandem.batch.runtime.spark_jobs import TaskFailed
from tandem.infra.java import jars
from tandem.infra.spark.errors import SPARK_ERRORS, sentence

FORM: Final = "postgresql://HOST:PORT/DATABASE?table=NAME, or '$VARIABLE?table=NAME' if the environment has that with a login"
_ROWS: Final = "rows"
_DRIVER: Final = "org.postgresql.Driver"
_PORT: Final = 5432
_READABLE: Final = re.compile(
    r"(boolean|smallint|integer|bigint|real|double precision|text|character.*|uuid|date|bytea|jsonb?"
    r"|timestamp(\(\d\))? with(out)? time zone|numeric\((\d|[12]\d|3[0-8]),\d+\))"
)
"""The types whose values Spark reads as they are; all others are read as their text, such as a numeric of any precision."""


@dataclass(frozen=True)
class DatabaseAddress:
    """A table of a database, and the login; `table` may have a schema."""

    host: str
    port: int
    database: str
    table: str
    login: Mapping[str, str] = field(repr=False)
    options: Mapping[str, str]

    @classmethod
    def parse(cls, text: str, environ: Mapping[str, str]) -> "DatabaseAddress":
        """The address of `FORM`. Raises NotAdopted."""
        head, _, parameters = text.partition("?")
        table = dict(parse_qsl(parameters)).get("table", "")
        variable = head[1:] if head.startswith("$") else None
        if variable is not None and variable not in environ:
            raise NotAdopted(f"--from {text}: the environment has no variable {variable} with the address of PostgreSQL")
        address = text if variable is None else environ[variable]
        parts = urlsplit(address.removeprefix("jdbc:"))
        stated = dict(parse_qsl(parts.query))
        secret = parts.password or stated.get("password")
        if parts.scheme not in ("postgresql", "postgres") or not parts.hostname or len(parts.path) < 2 or not table:
            raise NotAdopted(f"--from {head}: expected {FORM}")
        if secret and variable is None:
            raise NotAdopted("--from has a password, which others could read; put the address into a variable: '$NAME?table=...'")
        login = {"user": unquote(parts.username or "") or stated.get("user", ""), "password": unquote(secret or "")}
        options = {name: value for name, value in stated.items() if name not in ("table", "user", "password")}
        named = {name: value for name, value in login.items() if value}
        return cls(parts.hostname, parts.port or _PORT, unquote(parts.path[1:]), table, named, options)

    @property
    def name(self) -> str:
        """The table's name, without the login."""
        return f"postgresql://{self.host}:{self.port}/{self.database}?table={self.table}"

    @property
    def url(self) -> str:
        """The address for JDBC, without the login."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"jdbc:postgresql://{host}:{self.port}/{quote(self.database)}?{urlencode(self.options)}"

    @property
    def identifier(self) -> str:
        """The table's name as SQL quotes it."""
        return ".".join('"' + part.replace('"', '""') + '"' for part in self.table.split("."))


@dataclass(frozen=True)
class DatabaseTable(HistoryTable):
    """The rows of a table that one query has read; `address` without its login is the name."""

    address: DatabaseAddress
    frame: DataFrame = field(repr=False, compare=False)
    stored: int

    @property
    def name(self) -> str:
        """The name in messages and in the journal of adoptions."""
        return self.address.name

    def newer_files(self, before: Mapping[str, str]) -> list[str]:
        """All rows, or none if the same were adopted `before`. Raises NotAdopted if others were."""
        if before and before != self.files:
            raise NotAdopted(
                f"table {self.name} has {self.files[_ROWS]}, and {before.get(_ROWS)} were adopted. A database table has no "
                "versions, so it is unknown which rows are new; write those to a folder of Parquet, and adopt that"
            )
        return [] if before else [_ROWS]

    def size(self, files: Sequence[str]) -> int:
        """The bytes that the table takes in the database."""
        return self.stored if files else 0

    def rows(self, session: SparkSession, files: Sequence[str]) -> DataFrame:  # noqa: ARG002 - all rows were read before
        """The rows that were read, with the table's name as `_file`."""
        return self.frame.withColumn("_file", sql.lit(self.name))

    def check(self) -> None:
        """Raise NotAdopted if Spark has lost rows and read them again, and they are others."""
        if (now := _content(self.frame)) != self.files[_ROWS]:
            raise NotAdopted(f"table {self.name} changed while it was read: {self.files[_ROWS]}, then {now}; adopt again")


@contextmanager
def history_table(batch: BatchRun, table: str) -> Iterator[HistoryTable]:
    """The table that `--from` names: of a folder of this machine, or of PostgreSQL. Raises NotAdopted, TaskFailed."""
    if not table.startswith(("$", "postgres:", "postgresql:", "jdbc:")):
        yield HistoryTable.of(table)
        return
    address = DatabaseAddress.parse(table, batch.environ)
    try:
        frame, stored = _query_table(batch, address)
        frame = frame.persist(StorageLevel.DISK_ONLY)
        try:
            yield DatabaseTable(NO_FOLDER, "database", "", {_ROWS: _content(frame)}, address, frame, stored)
        finally:
            frame.unpersist()
    except SPARK_ERRORS as error:
        raise TaskFailed(f"table {address.name} cannot be read: {sentence(error)}") from error


def _query_table(batch: BatchRun, address: DatabaseAddress) -> tuple[DataFrame, int]:
    """The table as a DataFrame of one query, and the bytes that it takes."""
    session = batch.session
    for jar in jars.paths("jdbc", environ=batch.environ):
        session.sql(f"ADD JAR '{jar}'")
    options = {"url": address.url, "driver": _DRIVER, "fetchsize": "10000", "preferTimestampNTZ": "true", **address.login}
    reader = session.read.format("jdbc").options(**options)
    named = address.identifier.replace("'", "''")
    types = (
        "SELECT attname, format_type(atttypid, atttypmod) AS type, pg_table_size(attrelid) AS bytes FROM pg_attribute "
        f"WHERE attrelid = '{named}'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    )
    columns = reader.option("query", types).load().collect()
    chosen = ", ".join(_column(row.attname, row.type) for row in columns)
    frame = reader.option("query", f"SELECT {chosen} FROM {address.identifier}").load()
    return frame, columns[0].bytes if columns else 0


def _column(name: str, kind: str) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    item = kind.removesuffix("[]")
    return quoted if _READABLE.fullmatch(item) else f"{quoted}::text AS {quoted}"


def _content(frame: DataFrame) -> str:
    """The number of rows, and a sum of their hashes, which their order does not change."""
    hashes = sql.xxhash64(*(frame[f"`{name}`"] for name in frame.columns)).cast("decimal(38,0)")
    row: Any = frame.agg(sql.count("*").alias("n"), sql.coalesce(sql.sum(hashes), sql.lit(0)).alias("hash")).first()
    return f"{row.n} rows with hash {int(row.hash) % 2**64:016x}"
