"""Ports of this machine, for programs that listen on loopback."""

import socket
from contextlib import closing
from typing import Final

HOST: Final = "127.0.0.1"


def free(port: int) -> bool:
    """Whether a program can listen on the port."""
    with closing(socket.socket()) as probe:
        # As servers do: a closing connection of an earlier program does not occupy the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def unused() -> int:
    """A free port."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
