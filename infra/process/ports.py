"""Ports of this machine, for those that listen on it alone."""

import socket
from contextlib import closing
from typing import Final

HOST: Final = "127.0.0.1"


def free(port: int) -> bool:
    """Whether one could listen on the port."""
    with closing(socket.socket()) as probe:
        # As servers do: a connection of the one before, still closing, does not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def unused() -> int:
    """A port that nobody listens on."""
    with closing(socket.socket()) as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
