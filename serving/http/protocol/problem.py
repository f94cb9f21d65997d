"""Problem documents (RFC 9457): what went wrong as one sentence that says what would be valid.

400  a question without a meaning       410  the snapshot of a cursor is gone 401  nobody known                       413, 414,
431  too much was sent 403  not among what the token may       429  too many requests; Retry-After says when 404  no such view or
page               503  no answer can be given, and why 406  no such format                     504  not as fresh as was asked, or
not in time 409  another run is under way           415  a body that is not taken 422  records that are not events of their source
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from views.errors import TandemError

if TYPE_CHECKING:
    from serving.access.rights import Principal

MEDIA = "application/problem+json"
UNSAID = "the server cannot answer now; `/status` shows the reason to a token that is not narrowed to rows"
"""What somebody is told who may see some of the rows only, in place of a reason that may name positions."""


class Problem(HTTPException):
    """An answer with a status of 400 or more; `detail` is its sentence, `more` what else the document says."""

    def __init__(
        self, status: int, detail: str, *, headers: Mapping[str, str] | None = None, more: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.more = more


def document(status: int, detail: str) -> dict[str, Any]:
    """The problem as JSON; half of a surrogate pair, which a detail may repeat from a request, is written as its escape."""
    text = detail.encode("utf-8", "backslashreplace").decode()
    return {"title": HTTPStatus(status).phrase, "status": status, "detail": text}


def response(
    status: int, detail: str, headers: Mapping[str, str] | None = None, more: Mapping[str, Any] | None = None
) -> Response:
    """The problem as a response."""
    kept = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode({**document(status, detail), **(more or {})}), status, kept, MEDIA)


async def of_http(request: Request, error: Exception) -> Response:
    """What a route raised, or what the framework says of a path or method that there is none of."""
    assert isinstance(error, HTTPException)
    detail = error.detail
    if not isinstance(error, Problem) and error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"no route {request.url.path}; see /openapi.json"
    elif not isinstance(error, Problem) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = (
            f"{request.method} is not allowed for {request.url.path}; use {(error.headers or {}).get('Allow', 'another method')}"
        )
    return response(error.status_code, detail, error.headers, error.more if isinstance(error, Problem) else None)


async def of_validation(_: Request, error: Exception) -> Response:
    """Parameters or a body that are not of their types: each with its place, and what it has to be."""
    assert isinstance(error, RequestValidationError)
    said = (
        f"{'.'.join(map(str, one['loc'][1:])) or one['loc'][0]}: {one['msg'][:1].lower()}{one['msg'][1:]}"
        for one in error.errors()
    )
    return response(400, "; ".join(said))


async def of_tandem(request: Request, error: Exception) -> Response:
    """What could not be read: no answer is given. The reason may name positions, which not everybody may see."""
    assert isinstance(error, TandemError)
    principal: Principal | None = getattr(request.state, "principal", None)
    return response(503, UNSAID if principal is not None and principal.rights.rows else str(error))


async def of_defect(_: Request, __: Exception) -> Response:
    """A defect of ours: its stack is in the log and nothing of it in the answer."""
    return response(500, "internal error; see the server's log")
