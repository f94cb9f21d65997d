"""The web page: files without data, open to every caller. The page requests its data as any other client does, with a token."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from fastapi import APIRouter, Request, Response
from fastapi import Path as PathParameter

from tandem.serving.http.protocol.parameters import Release
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.respond import has
from tandem.serving.http.requests.gate import Gated

INDEX: Final = "index.html"
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""Only the page's own files load, and no text becomes markup, wherever it comes from."""

_FOLDER: Final = Path(__file__).parents[2] / "page"
_MEDIA: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}

router = APIRouter(route_class=Gated)


@router.get("/", openapi_extra={"x-verb": "open"}, include_in_schema=False)
async def index(request: Request, release: Release = None) -> Response:  # noqa: ARG001  the page itself reads it
    """Send the page, which asks this release for all answers."""
    return _sent(request, INDEX)


@router.get("/page/{file:path}", openapi_extra={"x-verb": "open"}, include_in_schema=False)
async def file(request: Request, file: Annotated[str, PathParameter(max_length=200)]) -> Response:
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


@dataclass(frozen=True)
class PageFile:
    """A file's bytes, its media type, and an entity tag that differs wherever the bytes differ."""

    content: bytes = field(repr=False)
    media: str
    tag: str


def page_file(name: str) -> PageFile | None:
    """The file of this name, such as `parts/table.js`; None if the page has none. Only files in the page's folder have names."""
    return _files().get(name)


@cache
def _files() -> Mapping[str, PageFile]:
    """All files, read at the first request."""
    found = {}
    for path in sorted(_FOLDER.rglob("*")):
        if path.suffix in _MEDIA:
            content = path.read_bytes()
            tag = f'W/"{sha256(content).hexdigest()[:32]}"'
            found[path.relative_to(_FOLDER).as_posix()] = PageFile(content, _MEDIA[path.suffix], tag)
    return found
