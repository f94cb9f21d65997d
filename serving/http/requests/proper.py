"""What every request has to be before anything looks at its question: small, with one Host, and a URL that is UTF-8."""

import re
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.types import Scope

from tandem.serving.http.protocol.problem import Problem

_URL: Final = 16 << 10
_HEADERS: Final = 32 << 10
_NOT_ASCII: Final = re.compile(rb"[\x80-\xff]|%[89A-Fa-f]")
_HOST: Final = re.compile(rb"([A-Za-z0-9._~%-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
"""A name or an address, and a port. RFC 3986 also allows delimiters, which no name of this server contains."""


def improper(scope: Scope, most: int) -> Problem | None:
    """Why a request is refused, whose body may have `most` bytes; None if it is proper."""
    return _refusal(scope, most) or _not_text(scope)


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
