"""Connections below requests, with bounds that no application can set: it learns of a request only once its head is complete."""

import asyncio
from typing import Any, Final, Literal, cast

import msgspec
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from tandem.serving.http.connections.admission import Door
from tandem.serving.http.protocol.problem import MEDIA, document

HEAD_BYTES: Final = 64 << 10
HEADERS: Final = 100
PIPELINED: Final = 16
"""Requests of a connection that may wait for the answer to an earlier one."""
HOLD_S: Final = 2.0
"""Seconds within which a connection in a spare slot must send a request, and after which that is refused."""
LINGER_S: Final = 1.0
"""Seconds for which what a client still sends is dropped after a refusal: a connection that is closed before that may lose it."""
_PIECE: Final = 16 << 10
"""This many bytes are parsed before the next check for too many."""
_CHUNKING: Final = 16 << 10
"""Bytes around the chunks of a body, besides half as many as the body has: each chunk costs as much as many bytes."""
_EXTENSION: Final = "tandem.connection"


class Bounded(HttpToolsProtocol):
    """A protocol with bounds: uvicorn's waits without a limit for whatever a client has begun.

    It adds to what asyncio calls of a protocol, what httptools calls of a parser's target, and two further hooks of uvicorn
    without an underscore.

    | what | bound |
    | --- | --- |
    | the head of a request | `serving.head_s`, 64 KiB, 100 headers |
    | its body, and the unread part of a response | `serving.least_bytes_s` on average, after `serving.grace_s` |
    | the time between two requests | `serving.keep_alive_s` |
    | requests that wait behind another | 16 |
    """

    def __init__(self, *given: Any, door: Door, **named: Any) -> None:
        super().__init__(*given, **named)
        self.address, self.made, self.kept, self.sent = "", False, False, 0
        self._door = door
        self._reading: Literal["head", "body", "done", "idle", "refused"] = "head"
        self._began = self._until = 0.0
        self._head = self._body = self._beside = 0
        self._gone = False
        self._unread: tuple[float, int] | None = None  # since when a response is, and how much was sent by then
        self._fault = (400, "the request is not HTTP/1.1")

    def came_from(self, address: str) -> bool:
        """Whether there is a slot for the connection of an address."""
        self.address = address
        self.kept = self._door.enter(self)
        return not self._gone

    def failed(self) -> None:
        """The connection was never opened."""
        self._door.leave(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for a head."""
        self.made = True
        super().connection_made(transport)
        self._await("head", self._head_s)
        if self._gone:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; refuse bytes that exceed a bound."""
        for start in range(0, len(data), _PIECE):
            if self._reading == "refused" or self.transport.is_closing():
                return
            piece, before = data[start : start + _PIECE], self._body
            super().data_received(piece)
            self._count(len(piece), before)

    def on_message_begin(self) -> None:
        """Wait for the rest of a head."""
        if len(self.pipeline) >= PIPELINED:
            self._fail(429, f"more than {PIPELINED} pipelined requests are waiting")
        super().on_message_begin()
        cast("Scope", self.scope)["extensions"] = {_EXTENSION: self}
        self._await("head", self._head_s)
        self._door.used(self)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header. Headers after a body (trailers) are ignored, and counted with the body."""
        if self._reading == "body":
            return
        if len(self.headers) >= HEADERS:
            self._fail(431, f"the request has more than {HEADERS} headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Wait for the body."""
        self._reading, self._began, self._body, self._beside = "body", self._door.clock(), 0, 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a piece of the body."""
        self._body += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the answer."""
        self._reading = "done"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if self._reading == "done" and not self.pipeline:
            self._await("idle", self._door.settings.keep_alive_s)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the fault says more
        """Answer bytes that are not HTTP or exceed a bound, unless an answer is being sent, and read no more."""
        status, detail = self._fault
        self._door.metrics.ended_connection("refused")
        self._door.access.info("unparseable request", who=None, client=self.client[0] if self.client else "", status=status)
        if self.answering or self.pipeline:
            self.transport.abort()
            return
        content = msgspec.json.encode(document(status, detail))
        head = f"content-type: {MEDIA}\r\ncache-control: no-store\r\nconnection: close\r\ncontent-length: {len(content)}\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + content)
        if self.transport.can_write_eof():  # TLS cannot; the answer says that the connection is closed
            self.transport.write_eof()
        self._reading, self._until = "refused", self._door.clock() + LINGER_S

    @property
    def answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def unfinished(self) -> bool:
        """Whether the client has yet to send the rest of a body."""
        return self._reading == "body"

    async def turn(self) -> None:
        """Wait for the turn of a request among those of all connections."""
        await self._door.starts.turn(self.address)

    @property
    def refusal(self) -> str | None:
        """Why a request is refused that is not a health check; None for a connection within the bounds."""
        return None if self.kept else self._door.refusal

    def overdue(self, now: float) -> str | None:
        """Why the connection must be closed; None to keep it."""
        if not self.made:
            return None
        pace, waits = self._door.pace, self.transport.get_write_buffer_size()
        if not waits:
            self._unread = None
        elif self._unread is None:
            self._unread = now, self.sent - waits
        elif now >= pace(self._unread[0], self.sent - waits - self._unread[1]):
            return "unread"
        if self.transport.is_closing():
            return None
        if self.flow.read_paused:  # the client waits for us
            self._until += now - self._began
            self._began, self._body = now, 0
            return None
        if self._reading == "body":
            return "body" if now >= pace(self._began, self._body) else None
        return self._reading if self._reading != "done" and now >= self._until else None

    def end(self, why: str) -> None:
        """End the connection; only the server's metrics record why."""
        if self._reading != "refused":  # which was counted
            self._door.metrics.ended_connection(why)
        self._gone = True
        if self.made:
            self.transport.abort()

    @property
    def _head_s(self) -> float:
        return self._door.settings.head_s if self.kept else HOLD_S

    def _await(self, what: Literal["head", "idle"], seconds: float) -> None:
        self._began = self._door.clock()
        self._reading, self._head, self._until = what, 0, self._began + seconds

    def _count(self, size: int, before: int) -> None:
        """Refuse a head that is too large, and a body in too many chunks."""
        if self._reading in ("head", "idle"):
            self._head += size
            if self._head > HEAD_BYTES:
                self._fault = 431, f"the head of the request has more than {HEAD_BYTES} bytes"
                self.send_400_response("")
        elif self._reading == "body":
            self._beside += size - max(0, self._body - before)
            if self._beside > _CHUNKING + self._body // 2:
                self._fault = 400, "the body has too many small chunks"
                self.send_400_response("")

    def _fail(self, status: int, detail: str) -> None:
        self._fault = status, detail
        raise ValueError(detail)  # the parser stops, and has it refused


def connection_of(scope: Scope) -> Bounded | None:
    """The connection of a request; None if there is none."""
    return cast("Bounded | None", scope.get("extensions", {}).get(_EXTENSION))
