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

from serving.access.sealed_text import Seal

_LONGEST_NAME: Final = 200
_REFUSED: Final = 400
_FAILED: Final = 500


@dataclass
class Inquiry:
    """A question in progress: route and views are known when it begins; `rows` is None if none were sent."""

    route: str
    views: Sequence[str]
    digest: str
    rows: int | None = None


async def begin(request: Request, route: str, seal: Seal) -> None:
    """Record a question that the gate let through."""
    named = request.path_params.get("view")
    body = b""
    with suppress(ClientDisconnect):  # the route determines it
        body = await request.body() if request.method == "POST" else b""
    asked = dumps([route, named, sorted(request.query_params.multi_items())]).encode()
    views = [] if named is None else [named[:_LONGEST_NAME]]
    request.scope["state"]["inquiry"] = Inquiry(route, views, seal.digest(asked + b"\0" + body))


def of(request: Request) -> Inquiry:
    """The question of a request."""
    found: Inquiry = request.scope["state"]["inquiry"]
    return found


def outcome(status: int) -> str:
    """The outcome of a status in one word."""
    return "answered" if status < _REFUSED else "refused" if status < _FAILED else "failed"
