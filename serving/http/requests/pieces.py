"""Large bodies of responses in pieces: a body is compressed and encrypted by the event loop, which others need meanwhile."""

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PIECE: Final = 128 << 10
"""Bytes that are compressed and encrypted in a few milliseconds."""


class Pieces:
    """An application around another one: it sends bodies of at most `PIECE` bytes, and other requests run between two of them."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; pass other messages on."""

        async def sent(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] != "http.response.body" or len(body) <= PIECE:
                await send(message)
                return
            for start in range(0, len(body), PIECE):
                more = start + PIECE < len(body) or message.get("more_body", False)
                await send({**message, "body": bytes(body[start : start + PIECE]), "more_body": more})
                await asyncio.sleep(0)

        await self._app(scope, receive, sent if scope["type"] == "http" else send)
