"""The other workers of a server: requests that one of them alone can answer are passed on to it, over a socket of this machine.

The sockets are in a folder that only their owner may enter, so whoever connects is a worker.
"""

import asyncio
import string
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote

import httpx
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from serving.http.connections.bounded_protocol import connection_of
from serving.http.protocol.problem import Problem
from serving.http.protocol.worker_marks import worker_of

READY: Final = "/ready"
METRICS: Final = "/metrics"
OWN: Final = b"tandem-worker-asks"
"""A header of a worker's own questions to another one."""
CLIENT: Final = b"tandem-client"
"""A header of requests that are passed on: the client's address."""
_BETWEEN_TWO: Final = frozenset(
    (b"connection", b"keep-alive", b"transfer-encoding", b"te", b"trailer", b"upgrade", b"proxy-connection", b"expect", CLIENT)
)
"""Headers of one connection, which are not passed on (RFC 9110, 7.6.1)."""
_ASCII: Final = string.digits + string.ascii_letters + string.punctuation
_WITH_BODY: Final = (b"content-length", b"transfer-encoding")
_ASK_S: Final = 2.0
_READY_S: Final = 1.0
_READY_ASK_S: Final = 0.5
"""Anybody may ask whether the server is ready, so that a worker that hangs must not hold up the others' answers."""
_IDLE_S: Final = 2.0
"""Shorter than a worker keeps a connection without a request."""
_OWNER: Final = "the process that has what this request is about"
_PERHAPS: Final = "it may have begun what was asked: check that before you send the request again"


@dataclass
class Peers:
    """The workers of a server by number, `number` is this one. A worker is silent for at most `seconds` while it answers."""

    number: int
    sockets: Sequence[Path]
    seconds: float
    most_body: int
    asked: Callable[[str], Response] = field(default=lambda _: Response(status_code=503), repr=False)
    """This worker's answer to another one: READY or METRICS."""
    _readiness: "tuple[float, asyncio.Future[bool]] | None" = field(default=None, init=False, repr=False)

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

    async def forward(self, owner: int, scope: Scope, receive: Receive, send: Send) -> Problem | None:
        """Answer a request as its owner does, which gets the body as it arrives; or return why it cannot be answered."""
        body = _Body(receive, self.most_body, empty=not any(name in _WITH_BODY for name, _ in scope["headers"]))
        answering = asyncio.ensure_future(self._answer(owner, scope, body, send))
        gone = asyncio.ensure_future(body.gone())
        try:
            await asyncio.wait((answering, gone), return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not answering.done():
                answering.cancel()
        with suppress(asyncio.CancelledError):
            return await answering
        return None

    async def ready(self, now: float) -> bool:
        """Whether no other worker answers that it is not ready, cached for a second; `now` is in monotonic seconds.

        A worker that does not answer gets no requests.
        """
        if self._readiness is None or (self._readiness[1].done() and now - self._readiness[0] > _READY_S):
            self._readiness = now, asyncio.ensure_future(self._ready())
        return await asyncio.shield(self._readiness[1])

    async def _ready(self) -> bool:
        return all(found.is_success for found in (await self.ask(READY, seconds=_READY_ASK_S)).values())

    async def ask(self, path: str, *, seconds: float = _ASK_S) -> dict[int, httpx.Response]:
        """The answers of all other workers that answer within these seconds, by number."""

        async def one(number: int) -> httpx.Response | None:
            asked = httpx.Request("GET", f"http://worker{path}", headers=[(OWN, b"1")])
            try:
                async with asyncio.timeout(seconds):
                    found = await self._ways[number].handle_async_request(asked)
                    await found.aread()
            except (httpx.HTTPError, OSError, TimeoutError):
                return None
            return found

        others = [number for number in range(len(self.sockets)) if number != self.number]
        found = await asyncio.gather(*(one(number) for number in others))
        return {number: answer for number, answer in zip(others, found, strict=True) if answer is not None}

    async def _answer(self, owner: int, scope: Scope, body: "_Body", send: Send) -> Problem | None:
        connection = connection_of(scope)
        try:
            found = await self._ways[owner].handle_async_request(self._request(scope, body))
        except ClientDisconnect:
            return None
        except Problem as refused:
            return refused
        except (httpx.ConnectError, OSError):
            return Problem(503, f"{_OWNER} does not answer; it is started again", headers={"Retry-After": "1"})
        except httpx.TimeoutException:
            return Problem(504, f"{_OWNER} did not answer within {self.seconds:g} s; {_PERHAPS}")
        except httpx.HTTPError:
            return Problem(503, f"{_OWNER} ended before it answered; {_PERHAPS}")

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
        return None

    def _request(self, scope: Scope, body: "_Body") -> httpx.Request:
        target = scope.get("raw_path") or scope["path"].encode()
        if query := scope.get("query_string"):
            # The server reads other bytes as Latin-1. Not in the URL, which httpx changes or refuses.
            target += b"?" + quote(query.decode("latin-1"), safe=_ASCII).encode()
        kept = [(name, value) for name, value in scope["headers"] if name not in _BETWEEN_TWO]
        address = (scope.get("client") or ("",))[0]
        # To connect takes time only if many wait already. A shorter limit would take a pause of this process for that.
        timeout = httpx.Timeout(self.seconds).as_dict()
        return httpx.Request(
            scope["method"],
            "http://worker",
            headers=[*kept, (CLIENT, address.encode("latin-1"))],
            content=None if body.empty else body.pieces(),
            extensions={"timeout": timeout, "target": target},
        )


class _Body:
    """The body of a request, of at most `most` bytes; `empty`: the request announces none."""

    def __init__(self, receive: Receive, most: int, *, empty: bool) -> None:
        self.empty, self._receive, self._most, self._whole = empty, receive, most, asyncio.Event()
        if empty:
            self._whole.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises Problem if it is too large, and ClientDisconnect."""
        size, more = 0, True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            piece, more = message.get("body", b""), message.get("more_body", False)
            size += len(piece)
            if size > self._most:
                raise Problem(413, f"the body has more than {self._most} bytes, which is the limit")
            yield piece
        self._whole.set()

    async def gone(self) -> None:
        """Return once the client has left after the whole body."""
        await self._whole.wait()
        while (await self._receive())["type"] != "http.disconnect":
            pass
