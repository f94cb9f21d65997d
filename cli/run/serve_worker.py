"""One of several workers of `tandem serve`, which starts it: `python -m cli.run.serve_worker`, with an Order on standard input.

It answers at the socket that it inherits, and ends with the process that started it.
"""

import os
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, cast

import msgspec
from starlette.responses import Response
from structlog.typing import FilteringBoundLogger

from cli.command import signals
from cli.command.call import Call, Told
from cli.command.command_log import part_log
from cli.run import part_processes
from cli.run.served_project import refuse_crc32, tandem_of
from infra.logs import telling
from infra.settings import Settings
from ledger.realtime.hot_messages import read
from serving.http import listener
from serving.http.app import application
from serving.http.composition import of_project
from serving.http.listener import Tls
from serving.http.routes.health import ready
from serving.http.routes.metrics import text_of
from serving.http.workers.peers import METRICS, READY, Peers
from serving.http.workers.shares import share_of
from serving.memory.hot_feed import HotFeed
from views.errors import said_by

if TYPE_CHECKING:
    from collections.abc import Callable

ASKED: Final = b"?"
_BEYOND_S: Final = 5
"""Seconds that an answer of another worker may take beyond the longest time that the settings allow for one."""


class Order(msgspec.Struct, frozen=True):
    """What a worker is to do. The settings have secrets, so an order is in no command line.

    Args:
        number: its number among all workers, whose sockets for each other are `sockets`.
        listening: the descriptor of the socket that the server listens on.
        pulse: a descriptor to which it writes a byte now and then, once it answers: ASKED if somebody has asked since the last.
        hot: a descriptor from which it gets the messages of the process of hot tails; None without one.
    """

    project: str
    debug: bool
    settings: Settings
    number: int
    sockets: tuple[str, ...]
    listening: int
    pulse: int
    hot: int | None
    certificate: str | None
    key: str | None


def run(call: Call, order: Order) -> None:
    """Answer until SIGTERM."""
    serving = share_of(order.settings.serving, len(order.sockets))
    settings = msgspec.structs.replace(order.settings, serving=serving)
    tls = None if order.certificate is None or order.key is None else Tls(Path(order.certificate), Path(order.key))
    os.set_blocking(order.pulse, False)
    with (
        socket.socket(fileno=order.listening) as bound,
        telling.recorded(settings, "access", now=_now) as access,
        telling.recorded(settings, "audit", now=_now) as audit,
        part_log(call, settings, part_processes.SERVER) as part,
        signals.stopping() as stop,
    ):
        log = part.bind(worker=order.number)
        feed = None if order.hot is None else HotFeed(time.monotonic)
        answers: dict[str, Callable[[], Response]] = {}
        peers = Peers(
            order.number,
            [Path(path) for path in order.sockets],
            max(serving.timeout_s, serving.wait_s) + _BEYOND_S,
            serving.body_kb << 10,
            lambda path: answers[path]() if path in answers else Response(status_code=404),
        )
        server = of_project(
            settings,
            tandem=tandem_of(call),
            log=log,
            access=access,
            audit=audit,
            now=_now,
            clock=time.monotonic,
            feed=feed,
            peers=peers,
        )
        answers[READY] = lambda: Response(status_code=200 if ready(server) else 503)
        answers[METRICS] = lambda: Response(text_of(server))
        if feed is not None and order.hot is not None:
            stream = cast("BinaryIO", os.fdopen(order.hot, "rb"))
            threading.Thread(target=_follow, args=(stream, feed, log), name="hot tails", daemon=True).start()
        refuse_crc32(settings, server)  # after that, because what nobody reads meanwhile takes the server's memory
        pulse = _Pulse(order.pulse)
        if feed is not None:
            feed.wanted = pulse.ask
        listener.serve(application(server), bound, tls=tls, ready=lambda: None, stop=stop, pulse=pulse.beat)


def _follow(stream: BinaryIO, feed: HotFeed, log: FilteringBoundLogger) -> None:
    """Pass the messages on to the feed, then end the worker: its hot commits are wrong or old from now on.

    The next one gets the present state.
    """
    try:
        for message in read(stream):
            feed.apply(message)
    except Exception as error:  # noqa: BLE001 - whatever the error
        log.error("a message of the process of hot tails cannot be applied", why=said_by(error))  # noqa: TRY400 - the reason says it
    else:
        log.error("no more messages of the process of hot tails arrive")
    os._exit(1)


@dataclass
class _Pulse:
    """The signs of life, and that somebody has asked for answers."""

    descriptor: int
    _asked: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        self._asked.set()

    def beat(self) -> None:
        asked = self._asked.is_set()
        self._asked.clear()
        with suppress(OSError):  # a pipe that is full has enough signs of life
            os.write(self.descriptor, ASKED if asked else b".")


def _now() -> datetime:
    return datetime.now(UTC)


if __name__ == "__main__":
    given = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    try:
        run(Call(Path(given.project), json=False, debug=given.debug, environ=dict(os.environ)), given)
    except Told:
        sys.exit(1)
