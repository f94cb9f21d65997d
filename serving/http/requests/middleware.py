"""The outermost layer of the server: bounds of requests, headers of responses, access log and metrics."""

from contextlib import ExitStack
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tandem.serving.http.connections.bounded_protocol import connection_of
from tandem.serving.http.protocol.problem import Problem, defect, response
from tandem.serving.http.requests.direct import Direct
from tandem.serving.http.requests.proper import improper
from tandem.serving.http.requests.records import PARTS, record
from tandem.serving.http.requests.server import Server

_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")
_CACHING: Final = (b"cache-control", b"private, no-cache")


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
        await self._direct.settled(scope)
        try:
            found = self._direct.answer(scope, began)
        except Exception as error:  # noqa: BLE001 - the framework, too, answers a defect and raises it afterwards
            found, app = None, _failed(error)
        if found is None:
            await self._through(app, began, scope, receive, send)
            return
        await send({"type": "http.response.start", "status": found.status, "headers": found.headers})
        await send({"type": "http.response.body", "body": found.body})

    async def _through(self, app: ASGIApp, began: float, scope: Scope, receive: Receive, send: Send) -> None:
        server, most = self._server, self._server.settings.body_kb << 10
        status, size, connection = 500, 0, connection_of(scope)

        async def sent(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                added = [_NO_SNIFF, (PARTS, server.parts.header.encode("latin-1"))]
                if all(name.lower() != _CACHING[0] for name, _ in message["headers"]):
                    added.append(_CACHING)
                message["headers"] = [*message["headers"], *added]
                if connection is not None:
                    connection.answers(scope)
            elif message["type"] == "http.response.body":
                size += len(message.get("body", b""))
            await send(message)
            if connection is not None:
                await connection.read()  # what the request holds is given back after that

        server.metrics.began()
        held = ExitStack()
        scope.setdefault("state", {})["held"] = held
        try:
            refused = improper(scope, most)
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
