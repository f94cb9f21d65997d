"""Several workers of `tandem serve`: this process has the socket and the process of hot tails, and keeps the workers running."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

import msgspec
from structlog.typing import FilteringBoundLogger

from cli.command.call import Call
from cli.run.serve_worker import ASKED, Order
from infra import folders
from infra.files import temporary_folder
from infra.process import pdeathsig
from infra.settings import Settings
from infra.supervision.restarts import terms
from infra.supervision.workers import Workers
from serving.http.listener import Tls
from serving.memory.hot_relay import HotRelay

_GRACE_S: Final = 45.0
"""A worker finishes its requests in 10 seconds, and waits half a minute for runs that it has asked to end."""


def keep(
    call: Call,
    settings: Settings,
    bound: socket.socket,
    tls: Tls | None,
    number: int,
    *,
    relay: HotRelay | None,
    wanted: Callable[[], object],
    log: FilteringBoundLogger,
    ready: Callable[[], None],
    stop: threading.Event,
) -> None:
    """Keep this number of workers running until `stop`; `ready` is called once all of them answer. Raises NotKept.

    `wanted` is called while somebody asks a worker for answers.
    """
    environ = folders.child_environment(call.environ)

    def begin(worker: int, pulse: int) -> "subprocess.Popen[bytes]":
        theirs, ours = (None, None) if relay is None else os.pipe()
        order = Order(
            project=str(call.project),
            debug=call.debug,
            settings=settings,
            number=worker,
            sockets=sockets,
            listening=bound.fileno(),
            pulse=pulse,
            hot=theirs,
            certificate=None if tls is None else str(tls.certificate.absolute()),
            key=None if tls is None else str(tls.key.absolute()),
        )
        words = [sys.executable, "-u", "-m", "cli.run.serve_worker"]
        try:
            process = subprocess.Popen(  # noqa: S603 - our own command
                [sys.executable, "-I", "-S", pdeathsig.__file__, str(os.getpid()), *words],
                stdin=subprocess.PIPE,
                stdout=2,  # what a person or program reads of the command is the address alone
                env=environ,
                pass_fds=[bound.fileno(), pulse, *([] if theirs is None else [theirs])],
            )
        except OSError:
            if ours is not None:
                os.close(ours)
            raise
        finally:
            if theirs is not None:
                os.close(theirs)
        if relay is not None and ours is not None:
            relay.join(worker, ours)
        assert process.stdin is not None  # it is a pipe
        with suppress(BrokenPipeError), process.stdin as stream:  # it has ended, which is found a little later
            stream.write(msgspec.json.encode(order))
        return process

    # Not in the state folder, whose path may be too long for a socket's address.
    with temporary_folder.held("tandem-serve-") as folder:
        sockets = tuple(str(folder / str(worker)) for worker in range(number))
        Workers(
            number,
            begin,
            terms(settings.supervisor),
            ready_s=settings.speed.ready_s,
            silent_s=settings.supervisor.silent_s,
            grace_s=_GRACE_S,
            heard=lambda signs: wanted() if ASKED in signs else None,
            ended=lambda worker: None if relay is None else relay.leave(worker),
            say=log.info,
            warn=log.warning,
        ).keep(ready, stop)
