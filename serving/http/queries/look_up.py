"""Look-ups of a row that are answered without the framework.

The framework's router, parameters and middleware take several times as long as to find a row in memory. A look-up
passes the same rights and limits and leaves the same lines in the logs. Whatever else a request is, such as refused, failing, or
a question that memory does not answer, it goes on to the framework as if nobody had looked at it.
"""

import zlib
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.types import Scope

from tandem.ledger.delta.errors import Unreadable
from tandem.serving.access.rights import Principal
from tandem.serving.http.protocol.media_types import JSON
from tandem.serving.http.protocol.parameters import KEYS, key_texts
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.parse import columns, one_row, parse_measures
from tandem.serving.http.queries.respond import entity_of, has
from tandem.serving.http.requests.audit_log import PARTS, inquiry, record
from tandem.serving.http.requests.gate import Gated, bearer
from tandem.serving.http.requests.proper import improper
from tandem.serving.http.requests.server import LARGE, Server
from tandem.serving.read.window_zone import with_local, zone_name
from tandem.views.errors import TandemError
from tandem.views.exactness import MARK
from tandem.views.instant import microseconds

Pairs = list[tuple[str, str]]

COMPRESSED: Final = 1000
"""Bytes of a body from which on it is compressed, if the client accepts that."""
LEVEL: Final = 3
"""How hard it is compressed: answers are compressed while the client waits."""

_VALUE: Final = "{view}"
_ANY: Final = frozenset({None, b"*/*", JSON.encode()})
_WITH_BODY: Final = (b"content-length", b"transfer-encoding")
_OF_FRAMEWORK: Final = (*_WITH_BODY, b"tandem-receipt", b"tandem-monotonic")
"""Headers with which the framework answers."""
_ONCE: Final = frozenset({"window", "measures"})
_VARY: Final = b"Accept, Authorization"


class Answer(NamedTuple):
    """A whole response, whose headers have lower-case names and include the body's length."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class Row(NamedTuple):
    """The entity tag of a row, its document and how many rows that has; no document if the client has it already."""

    entity: str
    body: bytes | None
    rows: int


@dataclass(frozen=True)
class Direct:
    """Answers look-ups, which are requests to a route whose path has one parameter, `{view}`."""

    server: Server
    route: Gated

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
            or any(name in headers for name in _OF_FRAMEWORK)
            or headers.get(b"accept") not in _ANY
            or improper(scope, server.settings.body_kb << 10) is not None
        ):
            return None
        principal = self._principal(headers.get(b"authorization", b""))
        if principal is None or self.route.needs not in principal.rights.verbs:
            return None
        has = headers.get(b"if-none-match")
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        who, found = str(principal), None
        try:
            question = inquiry(self.route.path_format, view, asked, server.seal)
        except Unreadable:  # the key of its digest: the framework meets the same error
            return None
        if server.limits.enter(who) is not None:
            return None
        try:
            found = _row(server, principal, view, asked, None if has is None else has.decode("latin-1"))
            if found is not None and len(found.body or b"") > LARGE:
                found = None  # until the client has read it, it counts as unread
        except (TandemError, Problem):
            return None  # the framework meets the same error, and its handlers answer it
        except Exception:
            scope["state"] |= {"principal": principal, "inquiry": question}  # for its lines in the logs
            raise
        finally:
            if found is None:
                server.limits.withdraw(who)
            else:
                server.limits.leave(who)
        if found is None:
            return None
        answer = self._response(found, gzip=b"gzip" in headers.get(b"accept-encoding", b""))
        question.rows = None if found.body is None else found.rows
        server.metrics.began()
        record(server, scope, who, self.route.path, question, status=answer.status, size=len(answer.body), began=began)
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


def _row(server: Server, principal: Principal, name: str, asked: Pairs, if_none_match: str | None) -> Row | None:
    """The row of one key and window of the live publication, from memory, found in the event loop's own thread in microseconds.

    All other questions take a turn in a lane; both give the same bytes and the same entity tag. None for a request that has to
    take that way. Raises BadSelection, Problem, ReadFailed.
    """
    given = dict(asked)
    nulls = [value for parameter, value in asked if parameter == "null"]
    known = all(parameter in _ONCE or parameter == "null" or parameter.startswith(KEYS) for parameter in given)
    if not known or len(given) + max(0, len(nulls) - 1) < len(asked):
        return None
    lane, rights = server.lane, principal.rights
    lane.snapshot()
    pinned = lane.cache.store.pinned()
    memory, view = pinned.views.get(name), pinned.project.every_view.get(name)
    if memory is None or view is None or rights.bound(view) is None or memory.answers.held.layout.in_order:
        return None
    one = one_row(view, principal, key_texts(asked, nulls), given.get("window"))
    measures = parse_measures(view, given.get("measures"))
    cache = lane.cache
    cache.store.use(name)
    found = memory.answers.row(one.key, None if one.start is None else microseconds(one.start))
    bound, common = bool(rights.rows), cache.common(pinned, view, memory)
    entity = entity_of(common.tag(one.digest), measures, bound=bound, given=0, ends=int(found is not None), media=JSON)
    if if_none_match is not None and has(if_none_match, entity):
        return Row(entity, None, 0)
    if found is not None and len(measures) < len(view.measures):
        found = {column: found[column] for column in (*columns(view, measures), MARK) if column in found}
    if server.answers is not None:
        server.answers.row(view, (one.key, one.start), found, measures, memory.provenance)
    zone = zone_name(view)
    row = found if found is None or zone is None else with_local(found, zone)
    touched = found is not None and MARK in found
    body = msgspec.json.encode({"view": name, "row": row, "provenance": common.told(bound=bound, touched=touched)})
    return Row(entity, body, int(found is not None))
