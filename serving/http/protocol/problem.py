"""Problem documents (RFC 9457): what went wrong and what would be valid, in one sentence.

| status | meaning |
| --- | --- |
| 400 | the request is invalid |
| 401 | the token is missing or not valid |
| 403 | the token lacks the right |
| 404 | the view, source, run or page does not exist |
| 406 | no accepted format is supported |
| 409 | another run is active |
| 410 | the snapshot of a cursor or token has expired |
| 413, 414, 431 | body, URL or headers are too large |
| 415 | the body's media type or encoding is not supported |
| 422 | some records are not events of their source |
| 429 | too many requests; Retry-After gives the seconds to wait |
| 503 | the server cannot answer, with the reason |
| 504 | not fresh enough in time, or no answer in time |
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from tandem.views.errors import TandemError

if TYPE_CHECKING:
    from tandem.serving.access.rights import Principal

MEDIA = "application/problem+json"
CODES: Final[Mapping[int, str]] = {
    400: "request-invalid",
    401: "unauthenticated",
    403: "forbidden",
    404: "not-found",
    405: "method-not-allowed",
    406: "format-unsupported",
    409: "conflict",
    410: "expired",
    413: "body-too-large",
    414: "url-too-long",
    415: "media-type-unsupported",
    422: "records-invalid",
    429: "too-many-requests",
    431: "headers-too-large",
    500: "internal-error",
    503: "unavailable",
    504: "not-in-time",
}
"""The code of a problem that no TandemError caused, by its status (docs/errors.md)."""

WITHHELD = "the server cannot answer now; `/status` shows the reason to a token that is not restricted to rows"
"""The detail for a caller that is restricted to rows, instead of a reason that may name positions."""


class Problem(HTTPException):
    """A problem response; `detail` is its sentence, `more` has further fields of the document.

    Without `code` it has that of the TandemError from which it is raised, else that of its status.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
        code: str = "",
    ) -> None:
        super().__init__(status, detail, dict(headers) if headers else None)
        self.more, self.code = more, code


def document(status: int, detail: str, code: str = "") -> dict[str, Any]:
    """The problem as JSON, with the code of its status unless another is given.

    Half of a surrogate pair, which a detail may repeat from a request, is written as its escape.
    """
    text = detail.encode("utf-8", "backslashreplace").decode()
    named = code or CODES.get(status, TandemError.code)
    return {"title": HTTPStatus(status).phrase, "status": status, "detail": text, "code": named}


def response(
    status: int,
    detail: str,
    headers: Mapping[str, str] | None = None,
    more: Mapping[str, Any] | None = None,
    code: str = "",
) -> Response:
    """The problem as a response."""
    kept = {"Cache-Control": "no-store", **(headers or {})}
    return Response(msgspec.json.encode({**document(status, detail, code), **(more or {})}), status, kept, MEDIA)


async def of_http(request: Request, error: Exception) -> Response:
    """A problem that a route raised, or the framework's 404 or 405."""
    assert isinstance(error, HTTPException)
    detail = error.detail
    if not isinstance(error, Problem) and error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"no route {request.url.path}; see /openapi.json"
    elif not isinstance(error, Problem) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        detail = (
            f"{request.method} is not allowed for {request.url.path}; use {(error.headers or {}).get('Allow', 'another method')}"
        )
    more, code = (error.more, error.code) if isinstance(error, Problem) else (None, "")
    if not code and isinstance(error.__cause__, TandemError):
        code = error.__cause__.code
    return response(error.status_code, detail, error.headers, more, code)


async def of_validation(_: Request, error: Exception) -> Response:
    """Parameters or a body of the wrong type: where, and what is expected."""
    assert isinstance(error, RequestValidationError)
    said = (
        f"{'.'.join(map(str, one['loc'][1:])) or one['loc'][0]}: {one['msg'][:1].lower()}{one['msg'][1:]}"
        for one in error.errors()
    )
    return response(400, "; ".join(said))


async def of_tandem(request: Request, error: Exception) -> Response:
    """A read that failed: no answer is given. The reason may name positions, which not every caller may see."""
    assert isinstance(error, TandemError)
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is not None and principal.rights.rows:
        return response(503, WITHHELD)
    return response(503, str(error), code=error.code)


async def of_defect(_: Request, __: Exception) -> Response:
    """The response to a defect."""
    return defect()


def defect() -> Response:
    """An internal error: its stack is in the log, and nothing of it in the answer."""
    return response(500, "internal error; see the server's log")
