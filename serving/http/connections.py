"""Connections before there is a request: bounds no application can set, since it hears of a request once its head is whole."""

import asyncio
from typing import TYPE_CHECKING, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    from serving.http.server import Server

HEAD_BYTES: Final = 64 << 10
HEAD_S: Final = 10.0


class Impatient(HttpToolsProtocol):
    """uvicorn's protocol, which waits for ever for a head of any length, with bounds: 64 KiB within 10 s, or it is closed.

    Between two requests uvicorn's own time of keeping a connection alive counts.
    """

    _head: int | None = None
    _over: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Wait for a head."""
        super().connection_made(transport)
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._have_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Close what goes on for too long without a whole head."""
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD_BYTES:
                self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, and say so in the access log: no application hears of it."""
        server = cast("Server", self.config.app.state.server)  # type: ignore[union-attr]  # it is ours
        server.access.info("unparseable request", who=None, client=self.client[0] if self.client else "", status=400)
        super().send_400_response(msg)

    def on_message_begin(self) -> None:
        """Wait for the rest of a head."""
        self._have_head()
        self._await_head()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Wait no longer."""
        self._have_head()
        super().on_headers_complete()

    def _await_head(self) -> None:
        self._head, self._over = 0, self.loop.call_later(HEAD_S, self.transport.close)

    def _have_head(self) -> None:
        if self._over is not None:
            self._over.cancel()
        self._head = self._over = None
