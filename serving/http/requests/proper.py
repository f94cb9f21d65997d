"""What every request has to be before anything looks at its question: small, with one Host, a URL that is UTF-8, strict JSON."""

import json
import re
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from fastapi import Request
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


_DIGITS: Final = 400
"""More digits than any number of JSON needs; Python's time for longer ones grows with the square of their length."""


class StrictRequest(Request):
    """A request that parses its body strictly where a route takes JSON."""

    def header(self, name: bytes) -> str | None:
        """The value of the first header of this lower-case name, several times as fast as `headers`."""
        return next((value.decode("latin-1") for header, value in self.scope["headers"] if header == name), None)

    async def json(self) -> Any:
        """The body's value. Raises Problem 400."""
        encoding = self.headers.get("content-encoding", "identity").strip().lower()
        if encoding != "identity":
            raise Problem(400, f"Content-Encoding {encoding!r} is not supported; send the body without encoding")
        return parsed(await self.body())


def parsed(body: bytes) -> Any:
    """The value of a JSON text. Raises Problem 400."""
    try:
        return json.loads(
            body.decode(), object_pairs_hook=_object, parse_float=_float, parse_int=_int, parse_constant=_no_constant
        )
    except UnicodeDecodeError as error:
        raise Problem(400, f"the body is not JSON: byte {error.start} is not UTF-8") from error
    except RecursionError as error:
        raise Problem(400, "the body is not JSON that can be read: it is nested too deeply") from error
    except ValueError as error:
        raise Problem(400, f"the body is not JSON: {error}") from error


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ValueError(f"key {twice[:100]!r} occurs twice in one object; send it once")
    return found


def _float(text: str) -> float:
    found = float(text)
    if not isfinite(found):
        raise ValueError(f"{text[:100]} is larger than any accepted number")
    return found


def _int(text: str) -> int:
    if len(text) > _DIGITS:
        raise ValueError(f"a number of {len(text)} digits is larger than any accepted number")
    return int(text)


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number of JSON")
