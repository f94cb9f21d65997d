"""A request that one route makes to another route, for the same caller."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from fastapi import Request
from starlette.types import ASGIApp, Message

from tandem.serving.http.protocol import problem
from tandem.serving.http.protocol.media_types import JSON
from tandem.serving.http.protocol.parameters import Pairs
from tandem.serving.http.requests.proper import improper
from tandem.serving.http.requests.server import server_of

_OF_CALLER: Final = (b"host", b"authorization")
_OF_SCOPE: Final = ("type", "asgi", "http_version", "server", "client", "scheme")


@dataclass(frozen=True)
class InnerRequest:
    """A request to a route: its path without escapes, its parameters, and the text of its body, which is JSON."""

    method: str
    path: str
    parameters: Pairs = ()
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class InnerAnswer:
    """The answer of the route; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = field(hash=False)
    body: bytes


async def answer_of(app: ASGIApp, outer: Request, asked: InnerRequest) -> InnerAnswer:
    """The application's answer to a request of the caller of `outer`.

    The request passes the gate as every request does: token, right, parameters, limits. Its share of the caller's limits is
    returned with the answer. The audit log has the question under the route that answers it, with that answer's status. An
    exception of the application is passed on.
    """
    state, pieces, place = outer.scope["state"], [], ExitStack()
    scope = {name: outer.scope[name] for name in _OF_SCOPE if name in outer.scope} | {
        "method": asked.method,
        "path": asked.path,
        "raw_path": asked.path.encode(),
        "query_string": urlencode(asked.parameters).encode(),
        "root_path": "",
        "headers": [
            *((name, value) for name, value in outer.scope["headers"] if name in _OF_CALLER),
            (b"accept", JSON.encode()),
            *([(b"content-type", JSON.encode())] if asked.body else []),
            *((name.lower().encode(), value.encode()) for name, value in asked.headers.items()),
        ],
        "state": {**state, "held": place},
    }
    status, headers = 500, {}

    async def receive() -> Message:
        return {"type": "http.request", "body": asked.body, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode().lower(): value.decode("latin-1") for name, value in message["headers"]}
        else:
            pieces.append(message.get("body", b""))

    try:
        refusal = improper(scope, server_of(outer).settings.body_kb << 10)
        if refusal is None:
            await app(scope, receive, send)
        else:
            await problem.response(refusal.status_code, refusal.detail)(scope, receive, send)
    finally:
        place.close()
        if (inquiry := scope["state"].get("inquiry")) is not None:
            inquiry.status = status
            state["inquiry"] = inquiry
    return InnerAnswer(status, headers, b"".join(pieces))
