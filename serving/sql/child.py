"""The processes that run foreign statements: a zygote, which runs none itself, and its forks, one for each statement.

The zygote has imported what they need. It has one thread, an empty environment, and no open file except its socket. A fork of it
is ready at once and shares its memory until it writes: it receives the statement, then the views that this names, sends the rows,
and ends.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

import duckdb
import msgspec
import pyarrow as pa

from tandem.serving.sql import messages
from tandem.serving.sql.database import connect, run
from tandem.serving.sql.limits import StatementLimits, arm, close_off, make_room, start_clock, stop_clock
from tandem.serving.sql.messages import (
    TO_CHILD,
    TO_ZYGOTE,
    Denied,
    Given,
    NamedViews,
    Ready,
    Result,
    Start,
    Statement,
    StatementRefused,
    encode,
)
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
        first = messages.receive(parent)
        start_clock(limits)
        try:
            messages.send(parent, *_answered(connection, parent, limits, first.body))
        except StatementRefused as refused:
            messages.send(parent, encode(Denied(str(refused), refused.reason)))
        except (RecursionError, MemoryError):
            messages.send(parent, encode(Denied("the statement nests too deeply or is too large to be read", "limit")))
    except messages.Broken:
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
    messages.send(parent, encode(NamedViews(names)))
    second = messages.receive(parent, files=True)
    given = TO_CHILD.decode(second.body)
    assert isinstance(given, Given)
    make_room(given.size)
    tables = {name: mapped(file) for name, file in zip(given.views, second.files, strict=True)}
    close_off()
    start_clock(limits)
    rows, stream = run(connection, statement.text, tables, limits)
    return encode(Result(rows)), memoryview(stream)


def main(arguments: Sequence[str]) -> NoReturn:
    """Fork children on request, until the parent ends.

    Arguments: the descriptor of its socket, and the limits of statements as JSON.
    """
    parent = socket.socket(fileno=int(arguments[0]))
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # the parent may ignore it, and then no child's end would be reported
    serve = ready(arguments[1])
    _look_away()
    gc.collect()
    gc.freeze()  # garbage collection must not write to memory that children share
    children: dict[int, int] = {}
    try:
        messages.send(parent, encode(Ready()))
        while True:
            frame = messages.receive(parent, files=True)
            message = TO_ZYGOTE.decode(frame.body)
            if isinstance(message, Start):
                (end,) = frame.files
                children[message.number] = _forked(end, serve)
                os.close(end)
            elif message.number in children:
                os.kill(children[message.number], signal.SIGKILL)
            _forget_ended(children)
    except messages.Broken:
        os._exit(0)  # the parent has ended; waiting children notice that too, and working children may finish


def _forget_ended(children: dict[int, int]) -> None:
    """Reap the children that have ended, by number their process ids.

    Only between messages, never by a handler of SIGCHLD: another child may end while a handler runs, and the handler would run
    within itself. Until it is reaped, no other process can have a child's id.
    """
    for number, pid in [*children.items()]:
        ended, _status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del children[number]


def _forked(end: int, serve: Callable[[socket.socket], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        own = os.dup2(end, 0, inheritable=False)
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))  # the zygote's own socket among them
        serve(socket.socket(fileno=own))
    finally:
        os._exit(0)  # no clean-up: the interpreter is a copy of another's


def _look_away() -> None:
    """Stop printing: up to here a person may read errors, from here on nobody reads the output."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    main(sys.argv[1:])
