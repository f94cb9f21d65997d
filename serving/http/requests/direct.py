"""Look-ups of a row that are answered without the framework.

The framework's router, parameters and middleware take several times as long as to find a row in memory. A look-up
passes the same rights and limits and leaves the same lines in the logs. Whatever else a request is, such as refused, failing, or
a question that memory does not answer, it goes on to the framework as if nobody had looked at it.
"""

import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from starlette.types import Scope

from tandem.serving.access.rights import Principal
from tandem.serving.http.protocol.media_types import JSON
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests import audit_log
from tandem.serving.http.requests.gate import Gated, bearer
from tandem.serving.http.requests.proper import improper
from tandem.serving.http.requests.records import PARTS, record
from tandem.serving.http.requests.server import LARGE, Server
from tandem.views.errors import TandemError

Pairs = list[tuple[str, str]]

COMPRESSED: Final = 1000
"""Bytes of a body from which on it is compressed, if the client accepts that."""
LEVEL: Final = 3
"""How hard it is compressed: answers are compressed while the client waits."""

_VALUE: Final = "{view}"
_ANY: Final = frozenset({None, b"*/*", JSON.encode()})
_WITH_BODY: Final = (b"content-length", b"transfer-encoding")
_VARY: Final = b"Accept, Authorization"


class Answer(NamedTuple):
    """A whole response, whose headers have lower-case names and include the body's length."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class LookUp(NamedTuple):
    """A request for the row of a view; `has` is its If-None-Match."""

    principal: Principal
    view: str
    asked: Pairs
    has: str | None


class Row(NamedTuple):
    """The entity tag of a row, its document and how many rows that has; no document if the client has it already."""

    entity: str
    body: bytes | None
    rows: int


@dataclass(frozen=True)
class Direct:
    """A route whose path has one parameter, `{view}`; `row` finds a row in memory, and returns None for any other question."""

    server: Server
    route: Gated
    row: Callable[[Server, LookUp], Row | None]

    @cached_property
    def _around(self) -> tuple[str, str]:
        """What the path has before and after the parameter."""
        before, _, after = self.route.path_format.partition(_VALUE)
        return before, after

    async def settled(self, scope: Scope) -> None:
        """Wait as the gate does, if the request may be a look-up."""
        if self._view(scope) is not None:
            await self.server.lane.settled()

    def answer(self, scope: Scope, began: float) -> Answer | None:
        """The response to a look-up that began then, which is recorded; None if the framework has to answer the request.

        Raises only errors of a defect.
        """
        view = self._view(scope)
        return None if view is None else self._answered(scope, view, began)

    def _view(self, scope: Scope) -> str | None:
        """The view in the path of a look-up."""
        path: str = scope["path"]
        before, after = self._around
        if scope["method"] != "GET" or not path.startswith(before) or not path.endswith(after):
            return None
        view = path[len(before) : -len(after)]
        return None if not view or "/" in view or scope.get("root_path") else view

    def _answered(self, scope: Scope, view: str, began: float) -> Answer | None:
        server, headers = self.server, dict(scope["headers"])
        if (
            len(headers) < len(scope["headers"])
            or any(name in headers for name in _WITH_BODY)
            or headers.get(b"accept") not in _ANY
            or improper(scope, server.settings.body_kb << 10) is not None
        ):
            return None
        principal = self._principal(headers.get(b"authorization", b""))
        if principal is None or self.route.needs not in principal.rights.verbs:
            return None
        has = headers.get(b"if-none-match")
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        look_up = LookUp(principal, view, asked, None if has is None else has.decode("latin-1"))
        who, found = str(principal), None
        if server.limits.enter(who) is not None:
            return None
        inquiry = audit_log.inquiry(self.route.path_format, view, asked, server.seal)
        try:
            found = self.row(server, look_up)
            if found is not None and len(found.body or b"") > LARGE:
                found = None  # until the client has read it, it counts as unread
        except (TandemError, Problem):
            return None  # the framework meets the same error, and its handlers answer it
        except Exception:
            scope["state"] |= {"principal": principal, "inquiry": inquiry}  # for its lines in the logs
            raise
        finally:
            if found is None:
                server.limits.withdraw(who)
            else:
                server.limits.leave(who)
        if found is None:
            return None
        answer = self._response(found, gzip=b"gzip" in headers.get(b"accept-encoding", b""))
        inquiry.rows = None if found.body is None else found.rows
        server.metrics.began()
        record(server, scope, who, self.route.path, inquiry, status=answer.status, size=len(answer.body), began=began)
        return answer

    def _principal(self, authorization: bytes) -> Principal | None:
        """The caller, if it is known without waiting."""
        shown, identities, now = bearer(authorization.decode("latin-1")), self.server.identities, self.server.now()
        if shown is None:
            return None
        found = identities.recent(shown, now=now)
        with suppress(TandemError):  # the framework meets it too
            return identities.whose(shown, now=now) if found is None and not identities.waits(shown) else found
        return None

    def _response(self, found: Row, *, gzip: bool) -> Answer:
        headers = [(b"etag", found.entity.encode()), (b"cache-control", b"private, no-cache"), (b"vary", _VARY)]
        body = found.body or b""
        if found.body is not None:
            encoding = []
            if len(body) >= COMPRESSED:
                headers[-1] = (b"vary", _VARY + b", Accept-Encoding")
                if gzip:
                    body, encoding = compressed(body), [(b"content-encoding", b"gzip")]
            headers += [(b"content-length", b"%d" % len(body)), (b"content-type", JSON.encode()), *encoding]
        headers += [(b"x-content-type-options", b"nosniff"), (PARTS, self.server.parts.header.encode("latin-1"))]
        return Answer(304 if found.body is None else 200, headers, body)


def compressed(body: bytes) -> bytes:
    """A body in gzip's format, as the framework compresses it."""
    compressor = zlib.compressobj(LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()
