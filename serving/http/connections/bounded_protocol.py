"""Connections below requests, with bounds that no application can set: it learns of a request only once its head is complete."""

import asyncio
from functools import partial
from typing import Any, Final, Literal, cast

import httptools
import msgspec
from starlette.types import Scope
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from tandem.serving.http.connections.at_once import Prompt
from tandem.serving.http.connections.open_connections import Door
from tandem.serving.http.connections.transport import Link
from tandem.serving.http.protocol.problem import MEDIA, document

HEAD_BYTES: Final = 64 << 10
HEADERS: Final = 100
PIPELINED: Final = 16
"""Requests of a connection that may wait for the answer to an earlier one."""
_HEALTH: Final = frozenset({b"/healthz", b"/readyz"})
_PIECE: Final = 16 << 10
"""This many bytes are parsed before the next check for too many."""
_LINGER_S: Final = 1.0
_SPARE_S: Final = 2.0
"""Seconds within which a connection in a spare slot must send a request."""
_CHUNKING: Final = 16 << 10
"""Bytes around the chunks of a body, besides half as many as the body has: each chunk costs as much as many bytes."""
_EXTENSION: Final = "tandem.connection"


class Bounded(Prompt):
    """A protocol with bounds: uvicorn's waits without a limit for whatever a client has begun.

    | what | bound |
    | --- | --- |
    | the head of a request | `serving.head_s`, 64 KiB, 100 headers |
    | its body, and the unread part of a response | `serving.least_bytes_s` on average, after `serving.grace_s` |
    | the time between two requests | `serving.keep_alive_s` |
    | requests that wait behind another | 16 |
    | bytes that arrive after a refusal | not read; the connection is closed a second later |
    """

    def __init__(self, *given: Any, door: Door, **named: Any) -> None:
        super().__init__(*given, **named)
        self.address, self.made = "", False
        self._door = door
        self._reading: Literal["head", "body", "done", "idle"] = "head"
        self._began = self._until = 0.0
        self._head = self._body = self._beside = 0
        self._unsent: tuple[float, int] | None = None  # since when something is, and how much was sent by then
        self._deaf = self._lingers = self._spare = self._held = self._gone = False
        self._fault = (400, "the request is not HTTP/1.1")

    def came_from(self, address: str) -> bool:
        """Whether there is a slot for the connection of an address."""
        self.address = address
        self._spare = not self._door.enter(self)
        return not self._gone

    def failed(self) -> None:
        """The connection was never opened."""
        self._door.leave(self)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for a head."""
        self.made, self._link = True, Link(transport, lambda: self._reading in ("head", "body"))
        super().connection_made(self._link)
        self._await("head", _SPARE_S if self._spare else self._door.settings.head_s)
        if self._gone:
            self._link.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._deaf = True
        self._door.leave(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; refuse bytes that are not HTTP or exceed a bound."""
        self._unset_keepalive_if_required()
        for start in range(0, len(data), _PIECE):
            if self._deaf or self._link.lingers:
                return
            piece, before = data[start : start + _PIECE], self._body
            try:
                self.parser.feed_data(piece)
            except httptools.HttpParserError:
                if not self._held:
                    self._refuse()
            except httptools.HttpParserUpgrade:
                # Answered as if nothing else had been asked for; what follows may be of another protocol.
                self._deaf = True
                if self.cycle is not None:
                    self.cycle.keep_alive = False
            else:
                self._count(len(piece), before)

    def on_message_begin(self) -> None:
        """Wait for the rest of a head."""
        if len(self.pipeline) >= PIPELINED:
            self._fail(429, f"more than {PIPELINED} pipelined requests are waiting")
        super().on_message_begin()
        cast("Scope", self.scope)["extensions"] = {_EXTENSION: self}
        self._await("head", _SPARE_S if self._spare else self._door.settings.head_s)
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
        if self._spare and self.url.partition(b"?")[0] not in _HEALTH:
            self._deaf = self._held = True  # until the refusal is sent
            self._link.pause_reading()
            raise ValueError(self._door.refusal)  # the parser stops
        self._reading, self._began, self._body, self._beside = "body", self._door.clock(), 0, 0
        super().on_headers_complete()
        if self._spare:
            self.cycle.keep_alive = False

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

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._door.starts.begin(self.address, partial(self._start, cycle, app))

    def _start(self, cycle: RequestResponseCycle, app: Any) -> None:
        if not cycle.disconnected:
            super()._start_asgi_task(cycle, app)

    @property
    def answering(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def answers(self, scope: Scope) -> None:
        """An answer begins: if the body is incomplete, the server stops waiting for it and closes the connection afterwards."""
        if self.cycle is not None and self.cycle.scope is scope and self.cycle.more_body:
            self.cycle.keep_alive = False

    async def read(self) -> None:
        """Return once the client has read what was sent, except for what lies in buffers."""
        if self.flow.write_paused:
            await self.flow.drain()

    def overdue(self, now: float) -> str | None:
        """Why the connection must be closed; None to keep it."""
        if not self.made:
            return None
        pace, unsent = self._door.pace, self._link.get_write_buffer_size()
        if not unsent:
            self._unsent = None
        elif self._unsent is None:
            self._unsent = now, self._link.written - unsent
        elif now >= pace.until(self._unsent[0], self._link.written - unsent - self._unsent[1]):
            return "unread"
        if self._link.lingers:
            self._until = self._until if self._lingers else now + _LINGER_S
            self._lingers = True
            return "refused" if now >= self._until else None
        if self._link.is_closing():
            return None
        if self.flow.read_paused:  # the client waits for us
            self._until += now - self._began
            self._began, self._body = now, 0
            return None
        if self._reading == "body":
            return "body" if now >= pace.until(self._began, self._body) else None
        return self._reading if self._reading != "done" and now >= self._until else None

    def end(self, why: str) -> None:
        """End the connection; only the server's metrics record why, unless the client is in a spare slot, which is answered."""
        if self._held and why == "head":
            self._held, self._fault = False, (503, self._door.refusal)
            self._refuse()
            return
        self._door.metrics.ended_connection(why)
        if not self.made:
            self._gone = True
            return
        if why == "idle":
            self._link.close()
            return
        self._deaf = True
        self._link.abort()

    def _await(self, what: Literal["head", "idle"], seconds: float) -> None:
        self._began = self._door.clock()
        self._reading, self._head, self._until = what, 0, self._began + seconds

    def _count(self, size: int, before: int) -> None:
        """Refuse a request whose head stays incomplete for too long, or whose body arrives too slowly."""
        if self._reading in ("head", "idle"):
            self._head += size
            if self._head > HEAD_BYTES:
                self._fault = 431, f"the head of the request has more than {HEAD_BYTES} bytes"
                self._refuse()
        elif self._reading == "body":
            self._beside += size - max(0, self._body - before)
            if self._beside > _CHUNKING + self._body // 2:
                self._fault = 400, "the body has too many small chunks"
                self._refuse()

    def _fail(self, status: int, detail: str) -> None:
        self._fault = status, detail
        raise ValueError(detail)  # the parser stops, and says so

    def _refuse(self) -> None:
        """Answer with the fault, unless an answer is being sent, and read no more."""
        self._door.metrics.ended_connection("refused")
        self._door.access.info(
            "unparseable request", who=None, client=self.client[0] if self.client else "", status=self._fault[0]
        )
        self._deaf = True
        if self.answering or self.pipeline:
            self._link.abort()
            return
        status, detail = self._fault
        content = msgspec.json.encode(document(status, detail))
        length = str(len(content)).encode()
        head = (
            b"content-type: " + MEDIA.encode() + b"\r\ncache-control: no-store\r\nconnection: close\r\ncontent-length: " + length
        )
        self._link.write(STATUS_LINE[status] + head + b"\r\n\r\n" + content)
        self._link.close()


def connection_of(scope: Scope) -> Bounded | None:
    """The connection of a request; None if there is none."""
    return cast("Bounded | None", scope.get("extensions", {}).get(_EXTENSION))
