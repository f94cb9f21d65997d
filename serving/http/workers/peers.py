"""The other workers of a server: requests that one of them alone can answer are passed on to it, over a socket of this machine.

The sockets are in a folder that only their owner may enter, so whoever connects is a worker.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs

import httpx
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.http.connections.bounded_protocol import connection_of
from serving.http.protocol import problem
from serving.http.protocol.worker_marks import worker_of

READY: Final = "/ready"
METRICS: Final = "/metrics"
_OWN: Final = "tandem-worker-asks"
_CLIENT: Final = b"tandem-client"
_BETWEEN_TWO: Final = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"proxy-connection", b"expect", _CLIENT)
)
"""Headers of one connection, which are not passed on (RFC 9110, 7.6.1)."""
_ASK_S: Final = 2.0
_IDLE_S: Final = 2.0
"""Shorter than a worker keeps a connection without a request."""


@dataclass
class Peers:
    """The workers of a server by number, `number` is this one. A worker is silent for at most `seconds` while it answers."""

    number: int
    sockets: Sequence[Path]
    seconds: float
    most_body: int
    asked: Callable[[str], Response] = field(default=lambda _: Response(status_code=503), repr=False)
    """This worker's answer to another one: READY or METRICS."""

    @cached_property
    def _ways(self) -> Sequence[httpx.AsyncHTTPTransport]:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=8, keepalive_expiry=_IDLE_S)
        return [httpx.AsyncHTTPTransport(uds=str(path), limits=limits) for path in self.sockets]

    def owner(self, scope: Scope) -> int:
        """The worker that has to answer a request: this one, unless another one has in memory what it is about.

        The first worker has the runs of commands. A cursor or a token of changes is marked by the worker that gave it.
        """
        path: str = scope["path"]
        if path == "/runs" or path.startswith("/runs/") or (path.startswith("/quarantine/") and path.endswith("/retry")):
            return 0
        texts = []
        if path.startswith("/views/"):
            query = scope.get("query_string") or b""
            if b"cursor=" in query or b"since=" in query:
                given = parse_qs(query.decode("latin-1"))
                texts = [*given.get("cursor", ()), *given.get("since", ())]
            if not texts and path.endswith("/changes"):
                texts = [value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"]
        named = worker_of(texts[0]) if texts else None
        return self.number if named is None or named >= len(self.sockets) else named

    async def forward(self, owner: int, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request as its owner does. 503 if that cannot be reached."""
        body = await self._body(receive)
        if body is None:
            return
        answering = asyncio.ensure_future(self._answer(owner, scope, body, receive, send))
        gone = asyncio.ensure_future(_gone(receive))
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not answering.done():
                answering.cancel()
        with suppress(asyncio.CancelledError):
            await answering

    async def ask(self, path: str) -> dict[int, httpx.Response]:
        """The answers of all other workers that answer within two seconds, by number."""

        async def one(number: int) -> httpx.Response | None:
            asked = httpx.Request("GET", f"http://worker{path}", headers={_OWN: "1"})
            try:
                async with asyncio.timeout(_ASK_S):
                    found = await self._ways[number].handle_async_request(asked)
                    await found.aread()
            except (httpx.HTTPError, OSError, TimeoutError):
                return None
            return found

        others = [number for number in range(len(self.sockets)) if number != self.number]
        found = await asyncio.gather(*(one(number) for number in others))
        return {number: answer for number, answer in zip(others, found, strict=True) if answer is not None}

    async def _body(self, receive: Receive) -> bytes | None:
        """The body, or a little more than is allowed, which the owner refuses; None if the client has gone."""
        body = bytearray()
        while len(body) <= self.most_body:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        return bytes(body)

    async def _answer(self, owner: int, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        connection = connection_of(scope)
        try:
            found = await self._ways[owner].handle_async_request(self._request(scope, body))
        except (httpx.HTTPError, OSError):
            said = "the process that has what this request is about does not answer; it is started again"
            await problem.response(503, said, headers={"Retry-After": "1"})(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            await send(message)
            if connection is not None:
                await connection.read()

        try:
            if connection is not None:
                connection.answers(scope)
            headers = [(name.lower(), value) for name, value in found.headers.raw if name.lower() not in _BETWEEN_TWO]
            headers = [(name, value) for name, value in headers if name not in (b"date", b"server")]
            await sent({"type": "http.response.start", "status": found.status_code, "headers": headers})
            async for piece in found.aiter_raw():
                await sent({"type": "http.response.body", "body": piece, "more_body": True})
            await sent({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            await found.aclose()

    def _request(self, scope: Scope, body: bytes) -> httpx.Request:
        query = scope.get("query_string") or b""
        path = (scope.get("raw_path") or scope["path"].encode()) + (b"?" + query if query else b"")
        url = httpx.URL("http://worker").copy_with(raw_path=path)
        kept = [(name, value) for name, value in scope["headers"] if name not in _BETWEEN_TWO and name != b"content-length"]
        address = (scope.get("client") or ("",))[0]
        has_body = body or any(name in (b"content-length", b"transfer-encoding") for name, _ in scope["headers"])
        extensions = {"timeout": httpx.Timeout(self.seconds, connect=_ASK_S).as_dict()}
        headers = [*kept, (_CLIENT, address.encode("latin-1"))]
        return httpx.Request(scope["method"], url, headers=headers, content=body if has_body else None, extensions=extensions)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


@dataclass(frozen=True)
class Outside:
    """What clients reach: the application, but requests that another worker owns are passed on."""

    peers: Peers
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] == "http" and (owner := self.peers.owner(scope)) != self.peers.number:
            await self.peers.forward(owner, scope, receive, send)
        else:
            await self.app(scope, receive, send)


@dataclass(frozen=True)
class Inside:
    """What other workers reach: the application for requests of clients, which they pass on, and their own questions."""

    peers: Peers
    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            return
        headers = dict(scope["headers"])
        if _OWN.encode() in headers and _CLIENT not in headers:
            await self.peers.asked(scope["path"])(scope, receive, send)
            return
        scope["client"] = (headers.get(_CLIENT, b"").decode("latin-1"), 0)
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != _CLIENT]
        await self.app(scope, receive, send)
