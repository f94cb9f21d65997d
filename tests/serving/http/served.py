"""A server of a test project: its application, a clock, tokens, and clients that need no network."""

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import httpx
import msgspec
import structlog

from tandem.infra.settings import KafkaSettings, ServingSettings, Settings
from tandem.ledger.hot.feed import HotFeed
from tandem.serving.access import tokens
from tandem.serving.access.rights import VERBS, Rights
from tandem.serving.http import listener
from tandem.serving.http.app import application
from tandem.serving.http.commands import TandemCommand
from tandem.serving.http.composition import of_project
from tandem.serving.http.listener import Tls
from tandem.serving.http.requests.answer_log import AnswerLog
from tests.serving.world import NOON, World
from tests.stack import PYTHONPATH

DAY = timedelta(days=1)
WAITING = """
import os
import sys
import threading

sys.stderr.write(f"process {os.getpid()} waits\\n")
threading.Event().wait()
"""
"""Definitions that are never done: what reads them in the project's folder goes on until it is stopped."""


@dataclass
class Served:
    """`lines` are those of the access log, `questions` of the audit log; `seconds` is what the clock shows.

    With a `feed` answers count its hot commits. `runner` is there while an asker is.
    """

    world: World
    change: dict[str, Any] = field(default_factory=dict)
    kafka: KafkaSettings = field(default_factory=KafkaSettings)
    lines: list[dict[str, Any]] = field(default_factory=list)
    questions: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    feed: HotFeed | None = None
    answers: AnswerLog | None = None
    runner: asyncio.Runner | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        def heard_by(lines: list[dict[str, Any]]) -> Any:
            def heard(_: Any, __: str, event: Any) -> Any:
                lines.append(dict(event))
                raise structlog.DropEvent

            return structlog.wrap_logger(None, processors=[heard], wrapper_class=structlog.make_filtering_bound_logger("info"))

        log, audit = heard_by(self.lines), heard_by(self.questions)
        serving = msgspec.structs.replace(ServingSettings(poll_ms=5), **self.change)
        settings = Settings(state=str(self.world.state), serving=serving, kafka=self.kafka)
        self.now = NOON
        environ = {**os.environ, "PYTHONPATH": PYTHONPATH, "SERVER_SECRET": "of the server"}
        tandem = TandemCommand([sys.executable, "-P", "-m", "tandem.cli"], self.world.folder, environ)
        self.server = of_project(
            settings,
            tandem=tandem,
            log=log,
            access=log,
            audit=audit,
            now=lambda: self.now,
            clock=lambda: self.seconds,
            feed=self.feed,
            answers=self.answers,
        )
        self.app = application(self.server)

    def token(self, name: str, *, may: tuple[str, ...] = ("read",), days: int = 1, **rights: Any) -> str:
        """The secret of a new token."""
        made = NOON - 10 * DAY
        return tokens.create(
            self.world.tables, name, Rights.of(may=may, **rights), expires=NOON + days * DAY, now=made, random=os.urandom
        )[1]

    @asynccontextmanager
    async def client(self, secret: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
        """A client that shows a secret, of a server that runs until the context ends."""
        async with self.server.open(), self.another(secret or self._any()) as client:
            yield client

    def _any(self) -> str:
        return self.token(f"client {len(tokens.read(self.world.tables))}", may=VERBS)

    @contextmanager
    def asker(self, secret: str | None = None) -> Iterator["Asker"]:
        """The same for tests that do not await; the second at a time asks the server that runs for the first."""
        if self.runner is not None:
            yield Asker(self.runner, self.another(secret or self._any()))
            return
        with asyncio.Runner() as runner:
            context = self.client(secret)
            client = runner.run(context.__aenter__())
            self.runner = runner
            try:
                yield Asker(runner, client)
            finally:
                self.runner = None
                runner.run(context.__aexit__(None, None, None))

    def another(self, secret: str | None) -> httpx.AsyncClient:
        """One more client of a server that runs."""
        headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}
        transport = _Turning(self.app, raise_app_exceptions=False)
        return httpx.AsyncClient(transport=transport, base_url="http://served", headers=headers)


class _Turning(httpx.ASGITransport):
    """The application as a transport that lets the event loop turn before each request, as a network does.

    An answer that awaits nothing would otherwise never let anybody else go on while a test asks in a row.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        return await super().handle_async_request(request)


@dataclass(frozen=True)
class Asker:
    """A client whose server runs while a request does."""

    runner: asyncio.Runner
    client: httpx.AsyncClient

    def get(self, path: str, **how: Any) -> httpx.Response:
        return self.runner.run(self.client.get(path, **how))

    def post(self, path: str, **how: Any) -> httpx.Response:
        return self.runner.run(self.client.post(path, **how))


@contextmanager
def serving(served: Served, tls: Tls | None = None, port: int = 0) -> Iterator[str]:
    """The address of a server in this process, on this port or a free one."""
    bound = listener.listening("127.0.0.1", port, tls=tls)
    stop, ready = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=listener.serve, args=(served.app, bound), kwargs={"tls": tls, "ready": ready.set, "stop": stop}
    )
    thread.start()
    try:
        assert ready.wait(60)
        yield listener.address_of(bound, tls=tls)
    finally:
        stop.set()
        thread.join()
        bound.close()
