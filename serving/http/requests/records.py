"""What is recorded of each request that was answered: metrics, a line of the access log, and one of the audit log for a question.

A line has caller, route, status and duration, and nothing of the URL's values.
"""

from typing import Final

from starlette.types import Scope

from tandem.serving.http.operations.part_states import HEADER
from tandem.serving.http.requests.audit_log import Inquiry, outcome
from tandem.serving.http.requests.server import Server

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
        server.audit.info(
            "question",
            who=who,
            client=client,
            route=asked.route,
            views=[*asked.views],
            question=asked.digest,
            rows=asked.rows,
            outcome=outcome(status),
            status=status,
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
