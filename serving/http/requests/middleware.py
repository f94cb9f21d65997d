"""The outermost layer of the server: bounds of requests, headers of responses, access log and metrics."""

import re
from contextlib import ExitStack, nullcontext
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from serving.http.connections.bounded_protocol import connection_of
from serving.http.operations.part_states import HEADER
from serving.http.protocol.problem import Problem, response
from serving.http.requests.audit_log import Inquiry, outcome
from serving.http.requests.direct import Direct
from serving.http.requests.server import Server

_URL: Final = 16 << 10
_HEADERS: Final = 32 << 10
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]|%[89A-Fa-f]")
_NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")
_PARTS: Final = HEADER.lower().encode()
_CACHING: Final = (b"cache-control", b"private, no-cache")
_HOST: Final = re.compile(rb"([A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
"""A name or an address, and a port. RFC 3986 also allows delimiters, which no name of this server contains."""


class Wire:
    """An application around another one. A line of the access log has caller, route, status and duration, and nothing of the
    URL's values.
    """

    def __init__(self, app: ASGIApp, server: Server, direct: Direct) -> None:
        self._app, self._server, self._direct = app, server, direct

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request; pass other messages on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        most = self._server.settings.body_kb << 10
        server, began = self._server, self._server.clock()
        status, size, connection = 500, 0, connection_of(scope)

        async def sent(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                # The parts are not in a body, which has a tag: the same snapshot has the same bytes, whatever the parts do.
                added = [_NO_SNIFF, (_PARTS, server.parts.header.encode("latin-1"))]
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
            refused = _refusal(scope, most) or _not_text(scope)
            if refused is not None:
                await response(refused.status_code, refused.detail)(scope, receive, sent)
            elif (answer := await self._direct.answer(scope, receive)) is not None:
                with nullcontext() if connection is None else connection.at_once():
                    await answer(scope, receive, sent)
            else:
                await self._app(scope, _bounded(receive, most), sent)
        except Exception as error:
            server.log.exception("a request failed", path=scope["path"][:500], exc_info=error)
            raise
        finally:
            held.close()
            seconds = server.clock() - began
            route = getattr(scope.get("route"), "path", "none")
            server.metrics.ended(method=scope["method"], route=route, status=status, seconds=seconds, size=size)
            principal = scope.get("state", {}).get("principal")
            _audit(server, scope, status, seconds)
            server.access.info(
                "request",
                who=None if principal is None else str(principal),
                client=(scope.get("client") or ("",))[0],
                method=scope["method"],
                path=scope["path"][:500],
                status=status,
                bytes=size,
                ms=round(seconds * 1000, 1),
            )


def _audit(server: Server, scope: Scope, status: int, seconds: float) -> None:
    asked: Inquiry | None = scope["state"].get("inquiry")
    if asked is not None:
        server.audit.info(
            "question",
            who=str(scope["state"]["principal"]),
            client=(scope.get("client") or ("",))[0],
            route=asked.route,
            views=list(asked.views),
            question=asked.digest,
            rows=asked.rows,
            outcome=outcome(status),
            status=status,
            ms=round(seconds * 1000, 1),
        )


def _refusal(scope: Scope, most: int) -> Problem | None:
    """Refuse what is too large, and a request that a proxy may take for another server's (RFC 9112, 3.2)."""
    url = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
    if url > _URL:
        return Problem(414, f"the URL has {url} bytes; the limit is {_URL}")
    length, headers, hosts = None, 0, []
    for name, value in scope["headers"]:
        headers += len(name) + len(value)
        if name == b"host":
            hosts.append(value)
        elif name == b"content-length" and length is None:
            length = value
    if length is not None and length.isdigit() and int(length) > most:
        return Problem(413, f"the body has {int(length)} bytes; the limit is {most}")
    if headers > _HEADERS:
        return Problem(431, f"the headers have {headers} bytes; the limit is {_HEADERS}")
    if len(hosts) > 1 or (not hosts and scope.get("http_version") != "1.0"):
        return Problem(400, f"the request has {len(hosts) or 'no'} Host headers; it needs exactly one")
    if hosts and not _HOST.fullmatch(hosts[0]):
        return Problem(400, "the request's Host header is not a host name with or without a port")
    return None


def _not_text(scope: Scope) -> Problem | None:
    """Refuse a URL that is not valid UTF-8: decoding it leniently would answer a different question."""
    for part, what in ((scope.get("raw_path") or b"", "path"), (scope.get("query_string") or b"", "query")):
        if b"%" in part and _NOT_ASCII.search(part):
            try:
                unquote_to_bytes(part).decode()
            except UnicodeDecodeError:
                return Problem(400, f"the {what} of the URL is not UTF-8, percent-encoded")
    return None


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
