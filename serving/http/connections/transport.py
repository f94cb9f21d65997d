"""A transport that counts the bytes handed to it, and that closes without losing the last answer."""

import asyncio
from collections.abc import Callable
from typing import Any


class Link(asyncio.Transport):
    """A transport around another one; `coming` says whether the client has yet to send the rest of a request.

    Closing a socket with unread bytes resets the connection, and the client may lose the answer. While a request is incomplete,
    `close` only signals that nothing more will be sent; `abort` must follow.
    """

    def __init__(self, transport: asyncio.Transport, coming: Callable[[], bool]) -> None:
        super().__init__()
        self.written = 0
        self.lingers = False
        self._transport, self._coming = transport, coming

    def write(self, data: Any) -> None:
        """Send bytes."""
        self.written += len(data)
        self._transport.write(data)

    def close(self) -> None:
        """Send what was written, then close, or linger."""
        if self.lingers or self._transport.is_closing():
            return
        if not self._coming():
            self._transport.close()
            return
        self.lingers = True
        self._transport.resume_reading()
        if self._transport.can_write_eof():  # TLS cannot; the answer says that the connection is closed
            self._transport.write_eof()

    def abort(self) -> None:
        """Close at once; unsent bytes are lost."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether nothing more is answered."""
        return self.lingers or self._transport.is_closing()

    def pause_reading(self) -> None:
        """Read nothing."""
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Facts about the connection."""
        return self._transport.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        """Bytes that the client's side has not taken yet."""
        return self._transport.get_write_buffer_size()
