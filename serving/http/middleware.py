"""The outermost layer of the server: bounds of requests, headers of responses, access log and metrics."""

import asyncio
from contextlib import ExitStack, suppress
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tandem.serving.http.connections.bounded_protocol import HOLD_S, LINGER_S, connection_of
from tandem.serving.http.protocol.problem import Problem, defect, response
from tandem.serving.http.queries.look_up import Direct
from tandem.serving.http.requests.audit_log import PARTS, record
from tandem.serving.http.requests.proper import improper
from tandem.serving.http.requests.server import LARGE, Server

_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")
_CACHING: Final = (b"cache-control", b"private, no-cache")
_CLOSE: Final = (b"connection", b"close")
_HEALTH: Final = frozenset({"/healthz", "/readyz"})


class Wire:
    """An application around another one, which look-ups of a row do not reach."""

    def __init__(self, app: ASGIApp, server: Server, direct: Direct) -> None:
        self._app, self._server, self._direct = app, server, direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; pass other messages on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, app = self._server.clock(), self._app
        if (connection := connection_of(scope)) is not None:
            await connection.turn()
            if _crowded(scope):
                await asyncio.sleep(HOLD_S)  # a client that is refused at once comes back at once
        await self._direct.settled(scope)
        try:
            found = None if _crowded(scope) else self._direct.answer(scope, began)
        except Exception as error:  # noqa: BLE001 - the framework, too, answers a defect and raises it afterwards
            found, app = None, _failed(error)
        if found is None:
            await self._through(app, began, scope, receive, send)
            return
        if connection is not None:
            connection.sent += len(found.body)
        await send({"type": "http.response.start", "status": found.status, "headers": found.headers})
        await send({"type": "http.response.body", "body": found.body})

    async def _through(self, app: ASGIApp, began: float, scope: Scope, receive: Receive, send: Send) -> None:
        server, most = self._server, self._server.settings.body_kb << 10
        status, size, connection, early = 500, 0, connection_of(scope), False

        async def sent(message: Message) -> None:
            nonlocal status, size, early
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [_NO_SNIFF, (PARTS, server.parts.header.encode("latin-1"))]
                if all(name.lower() != _CACHING[0] for name, _ in message["headers"]):
                    added.append(_CACHING)
                early = connection is not None and connection.unfinished
                if early or (connection is not None and connection.refusal is not None):
                    added.append(_CLOSE)
                message["headers"] = [*message["headers"], *added]
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
                if connection is not None:
                    connection.sent += len(message.get("body", b""))
                if not message.get("more_body", False) and (early or size > LARGE):
                    # What the request holds is given back once the client has read all but what lies in buffers.
                    await send({**message, "more_body": True})
                    if early:
                        await _rest(receive)
                    message = {"type": "http.response.body"}
            await send(message)

        server.metrics.began()
        held = ExitStack()
        scope.setdefault("state", {})["held"] = held
        try:
            refused = _crowded(scope) or improper(scope, most)
            if refused is not None:
                await response(refused.status_code, refused.detail)(scope, receive, sent)
            else:
                await app(scope, _bounded(receive, most), sent)
        except Exception as error:
            server.log.exception("a request failed", path=scope["path"][:500], exc_info=error)
            raise
        finally:
            held.close()
            route, state = getattr(scope.get("route"), "path", "none"), scope["state"]
            who = None if (principal := state.get("principal")) is None else str(principal)
            record(server, scope, who, route, state.get("inquiry"), status=status, size=size, began=began)


def _crowded(scope: Scope) -> Problem | None:
    """Why a request is refused whose connection is beyond the bounds."""
    connection = connection_of(scope)
    refusal = None if connection is None or scope["path"] in _HEALTH else connection.refusal
    return None if refusal is None else Problem(503, refusal)


async def _rest(receive: Receive) -> None:
    """Drop what is left of a body, for a while: a client that still sends it may lose the answer to a closed connection."""
    with suppress(TimeoutError):
        async with asyncio.timeout(LINGER_S):
            while (await receive()).get("more_body", False):
                pass


def _failed(error: Exception) -> ASGIApp:
    async def failed(scope: Scope, receive: Receive, send: Send) -> None:
        await defect()(scope, receive, send)
        raise error

    return failed


def _bounded(receive: Receive, most: int) -> Receive:
    """The body as it arrives, refused once it is too large: the framework's own bound gives no problem document."""
    got = 0

    async def received() -> Message:
        nonlocal got
        message = await receive()
        got += len(message.get("body", b""))
        if got > most:
            raise Problem(413, f"the body has more than {most} bytes, which is the limit")
        return message

    return received


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
