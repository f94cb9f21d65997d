"""The zygote that processes of statements are forked from: it has imported what they need, and runs no statement itself.

It has one thread, an empty environment, and no open file except its socket. A fork of it is ready at once and shares its memory
until it writes.
"""

import gc
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from tandem.serving.sql import frames
from tandem.serving.sql.child import ready
from tandem.serving.sql.messages import TO_ZYGOTE, Ready, Start, encode


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
        frames.send(parent, encode(Ready()))
        while True:
            frame = frames.receive(parent, files=True)
            message = TO_ZYGOTE.decode(frame.body)
            if isinstance(message, Start):
                (end,) = frame.files
                children[message.number] = _forked(end, serve)
                os.close(end)
            elif message.number in children:
                os.kill(children[message.number], signal.SIGKILL)
            _forget_ended(children)
    except frames.Broken:
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
