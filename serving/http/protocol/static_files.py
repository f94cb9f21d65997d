"""The files of the web page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Final

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
