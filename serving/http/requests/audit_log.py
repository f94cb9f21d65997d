"""The audit log's line of a question: who asked which views, how many rows they got, and a digest of the question.

It contains no value: keys, statements and times are only in the digest, which is keyed by a secret of the project, so no reader
of the log can test values against it. The same question of any caller has the same digest.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from json import dumps
from typing import Final

from fastapi import Request
from starlette.requests import ClientDisconnect
from starlette.types import Scope

from tandem.serving.access.sealed_text import Seal
from tandem.serving.http.requests.server import Server
from tandem.serving.status.parts import HEADER

_LONGEST_NAME: Final = 200
_REFUSED: Final = 400
_FAILED: Final = 500


@dataclass
class Inquiry:
    """A question in progress: route and views are known when it begins; `rows` is None if none were sent.

    `status` is that of the question's own answer, where the response that carries it has another, as at `/mcp`.
    """

    route: str
    views: Sequence[str]
    digest: str
    rows: int | None = None
    status: int | None = None


def inquiry(route: str, view: str | None, asked: Sequence[tuple[str, str]], seal: Seal, body: bytes = b"") -> Inquiry:
    """The question of a request to a route, with the view in its path and the parameters that it sent."""
    content = dumps([route, view, sorted(asked)]).encode()
    return Inquiry(route, [] if view is None else [view[:_LONGEST_NAME]], seal.digest(content + b"\0" + body))


async def begin(request: Request, route: str, seal: Seal) -> None:
    """Record a question that the gate let through."""
    body = b""
    with suppress(ClientDisconnect):  # the route determines it
        body = await request.body() if request.method == "POST" else b""
    asked = request.query_params.multi_items()
    request.scope["state"]["inquiry"] = inquiry(route, request.path_params.get("view"), asked, seal, body)


def of(request: Request) -> Inquiry:
    """The question of a request."""
    found: Inquiry = request.scope["state"]["inquiry"]
    return found


def outcome(status: int) -> str:
    """The outcome of a status in one word."""
    return "answered" if status < _REFUSED else "refused" if status < _FAILED else "failed"


PARTS: Final = HEADER.lower().encode()
"""The header with the states of the parts. They are in no body, which has a tag: the same snapshot has the same bytes, whatever
the parts do.
"""


def record(
    server: Server, scope: Scope, who: str | None, route: str, asked: Inquiry | None, *, status: int, size: int, began: float
) -> None:
    """Record a request of a principal with a response of `size` bytes; it began then by the server's clock."""
    seconds = server.clock() - began
    server.metrics.ended(method=scope["method"], route=route, status=status, seconds=seconds, size=size)
    client, ms = (scope.get("client") or ("",))[0], round(seconds * 1000, 1)
    if asked is not None:
        of_answer = asked.status or status
        server.audit.info(
            "question",
            who=who,
            client=client,
            route=asked.route,
            views=[*asked.views],
            question=asked.digest,
            rows=asked.rows,
            outcome=outcome(of_answer),
            status=of_answer,
            ms=ms,
        )
    server.access.info(
        "request",
        who=who,
        client=client,
        method=scope["method"],
        path=scope["path"][:500],
        status=status,
        bytes=size,
        ms=ms,
    )
