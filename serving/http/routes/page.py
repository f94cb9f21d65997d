"""The web page: files without data, open to every caller. The page requests its data as any other client does, with a token."""

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from tandem.serving.http.protocol.etags import has
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.protocol.static_files import INDEX, POLICY, page_file
from tandem.serving.http.requests.gate import Gated

router = APIRouter(route_class=Gated)


@router.get("/", openapi_extra={"x-verb": "open"}, include_in_schema=False)
async def index(request: Request) -> Response:
    """Send the page."""
    return _sent(request, INDEX)


@router.get("/page/{file:path}", openapi_extra={"x-verb": "open"}, include_in_schema=False)
async def file(request: Request, file: Annotated[str, Path(max_length=200)]) -> Response:
    """Send one of the page's files."""
    return _sent(request, file)


def _sent(request: Request, name: str) -> Response:
    found = page_file(name)
    if found is None:
        raise Problem(404, f"the page has no file {name!r}")
    headers = {
        "ETag": found.tag,
        "Cache-Control": "no-cache",
        "Content-Security-Policy": POLICY,
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
    if has(request.headers.get("if-none-match"), found.tag):
        return Response(status_code=304, headers=headers)
    return Response(found.content, 200, headers, found.media)
