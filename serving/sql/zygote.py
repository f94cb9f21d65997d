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
from typing import Final, NoReturn

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
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # who started this may ignore it: no child's end would be told
    database = connect(limits)
    for _ in range(_REHEARSALS):
        rehearse(database, limits)
    _look_away()
    gc.collect()
    gc.freeze()  # what children share is not written to by looking for garbage
    children: dict[int, int] = {}
    try:
        frames.send(parent, encode(Ready()))
        while True:
            frame = frames.receive(parent, files=True)
            message = TO_ZYGOTE.decode(frame.body)
            if isinstance(message, Start):
                (end,) = frame.files
                children[message.number] = _forked(end, database, limits)
                os.close(end)
            elif message.number in children:
                os.kill(children[message.number], signal.SIGKILL)
            _forget_ended(children)
    except frames.Broken:
        os._exit(0)  # the parent has ended; children that wait see that too, and those that work have their time


def _forget_ended(children: dict[int, int]) -> None:
    """Reap the children that have ended, by number their process ids.

    Only between messages, never by a handler of SIGCHLD: another child may end while a handler runs, and the handler would run
    within itself. Until it is reaped, no other process can have a child's id.
    """
    for number, pid in [*children.items()]:
        ended, _status = os.waitpid(pid, os.WNOHANG)
        if ended:
            del children[number]


def _forked(end: int, database: duckdb.DuckDBPyConnection, limits: Limits) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
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
