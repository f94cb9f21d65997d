"""The process that the processes of statements are forked from: it has imported what they need, and nothing else.

It has one thread, an empty environment, no file but two sockets, and a database ready to be used. A fork of it is ready at once,
shares its memory until it writes, and has a database of its own. It runs no statement itself.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import duckdb
import msgspec

from serving.sql import frames
from serving.sql.child import rehearse, serve_one
from serving.sql.database import connect
from serving.sql.limits import Limits
from serving.sql.messages import TO_ZYGOTE, Ready, Start, encode

_REHEARSALS: Final = 10
"""As often as Python looks at code before it makes it fast."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Fork children as they are asked for, until the parent ends. Arguments: the descriptor of its socket, the limits as JSON."""
    parent = socket.socket(fileno=int(arguments[0]))
    limits = msgspec.json.decode(arguments[1], type=Limits)
    database = connect(limits)
    for _ in range(_REHEARSALS):
        rehearse(database, limits)
    _look_away()
    gc.collect()
    gc.freeze()  # what children share is not written to by looking for garbage
    children: dict[int, int] = {}

    def reap(*_: Any) -> None:
        while children:
            try:
                ended, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not ended:
                return
            for number in [number for number, pid in children.items() if pid == ended]:
                del children[number]

    signal.signal(signal.SIGCHLD, reap)
    try:
        frames.send(parent, encode(Ready()))
        while True:
            frame = frames.receive(parent, files=True)
            message = TO_ZYGOTE.decode(frame.body)
            # A child may end before its number is written down: it is reaped afterwards.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            if isinstance(message, Start):
                (end,) = frame.files
                children[message.number] = _forked(end, database, limits)
                os.close(end)
            elif message.number in children:
                os.kill(children[message.number], signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
    except frames.Broken:
        os._exit(0)  # the parent has ended; children that wait see that too, and those that work have their time


def _forked(end: int, database: duckdb.DuckDBPyConnection, limits: Limits) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        os.setsid()
        own = os.dup2(end, 0, inheritable=False)
        os.closerange(1, os.sysconf("SC_OPEN_MAX"))  # the zygote's own socket among them
        serve_one(database, socket.socket(fileno=own), limits)
    finally:
        os._exit(0)  # no clean-up: the interpreter is a copy of another's


def _look_away() -> None:
    """Until now what went wrong was to be read; from now on nothing is printed by anyone."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


if __name__ == "__main__":
    main(sys.argv[1:])
