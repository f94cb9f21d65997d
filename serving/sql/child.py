"""The process of one statement: it receives the statement, then the views that this names, sends the rows, and ends."""

import os
import socket
from collections.abc import Callable
from typing import Final

import duckdb
import msgspec
import pyarrow as pa

from tandem.serving.sql import frames
from tandem.serving.sql.database import connect, run
from tandem.serving.sql.limits import StatementLimits, arm, close_off, make_room, start_clock, stop_clock
from tandem.serving.sql.messages import TO_CHILD, Denied, Given, NamedViews, Result, Statement, encode
from tandem.serving.sql.refusal import StatementRefused
from tandem.serving.sql.shared_tables import mapped
from tandem.serving.sql.statement import views_named

_STAGE: Final = "_rehearsed"
_REHEARSED: Final = f"SELECT a, sum(a) AS b FROM {_STAGE} WHERE a > 0 GROUP BY a ORDER BY b LIMIT 1"
_REHEARSALS: Final = 10
"""As often as Python looks at code before it makes it fast."""


def ready(told: str) -> Callable[[socket.socket], None]:
    """What a forked process does with its socket, within limits that are given as JSON."""
    limits = msgspec.json.decode(told, type=StatementLimits)
    database = connect(limits)
    for _ in range(_REHEARSALS):
        rehearse(database, limits)
    return lambda parent: serve_one(database, parent, limits)


def serve_one(connection: duckdb.DuckDBPyConnection, parent: socket.socket, limits: StatementLimits) -> None:
    """Wait for a statement, answer it, and end; the process also ends with its parent."""
    try:
        # Forked processes inherit the random state: without a new seed all of them would draw the same numbers.
        connection.execute("SELECT setseed(?)", [int.from_bytes(os.urandom(4), "big") / 2**32]).fetchall()
        rehearse(connection, limits)
        arm(limits)
        first = frames.receive(parent)
        start_clock(limits)
        try:
            frames.send(parent, *_answered(connection, parent, limits, first.body))
        except StatementRefused as refused:
            frames.send(parent, encode(Denied(str(refused), refused.reason)))
        except (RecursionError, MemoryError):
            frames.send(parent, encode(Denied("the statement nests too deeply or is too large to be read", "limit")))
    except frames.Broken:
        pass  # the parent has ended, or no longer waits


def rehearse(connection: duckdb.DuckDBPyConnection, limits: StatementLimits) -> None:
    """Run once all code that a statement needs, without keeping a result.

    The first run takes longer, above all in a fork, whose memory becomes its own only when it writes.
    """
    views_named(connection, _REHEARSED)
    run(connection, _REHEARSED, {_STAGE: pa.Table.from_batches([], schema=pa.schema([("a", pa.int64())]))}, limits)
    connection.execute("ROLLBACK")
    connection.unregister(_STAGE)


def _answered(
    connection: duckdb.DuckDBPyConnection, parent: socket.socket, limits: StatementLimits, body: bytes
) -> tuple[bytes, memoryview]:
    statement = TO_CHILD.decode(body)
    assert isinstance(statement, Statement)
    names = views_named(connection, statement.text)
    stop_clock()
    frames.send(parent, encode(NamedViews(names)))
    second = frames.receive(parent, files=True)
    given = TO_CHILD.decode(second.body)
    assert isinstance(given, Given)
    make_room(given.size)
    tables = {name: mapped(file) for name, file in zip(given.views, second.files, strict=True)}
    close_off()
    start_clock(limits)
    rows, stream = run(connection, statement.text, tables, limits)
    return encode(Result(rows)), memoryview(stream)
