"""Responding with an answer: a page of its rows in the format that the client accepts, with an entity tag."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from fastapi import Request, Response

from tandem.serving.http.protocol.formats import Page, accepted, headers_of, provenance, refuse_other, rendered
from tandem.serving.http.protocol.media_types import JSON
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.answer_question import Found
from tandem.serving.http.queries.monotonic import HEADER
from tandem.serving.http.queries.parse import Cursor, columns, cursor_text
from tandem.serving.http.requests import audit_log
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.read.touched_rows import split
from tandem.serving.read.window_zone import zone_name

RENDERED_HERE: Final = 100
"""Up to this many rows are rendered in the event loop's own thread: handing them to another thread takes longer."""


async def respond(
    request: Request,
    found: Found,
    *,
    limit: int | None,
    escaped: bool,
    single: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """The rows from `found.given` on, at most `limit`, with `extra` in the document. 304 if the client has the same rows already.

    Raises Problem 400 if the response would have more bytes than the settings allow.
    """
    server, principal, answer = server_of(request), principal_of(request), found.answer
    media = accepted(request.headers.get("accept"))
    refuse_other(media, escaped=escaped)
    total, there = answer.total, answer.first + int(answer.table.num_rows)
    ends = min(total, there if limit is None else min(there, found.given + limit))  # a page ends where its chunk does
    written = f"{media}; escaped" if escaped else media
    entity = entity_of(answer.tag, found.measures, bound=found.bound, given=found.given, ends=ends, media=written)
    echo = {} if found.monotonic is None else {HEADER: found.monotonic}
    if (same := unchanged(request.method, request.headers.get("if-none-match"), entity)) is not None:
        same.headers.update(echo)
        return same
    following = None
    if ends < total:
        following = cursor_text(Cursor.after(answer, ends), server.seal if found.bound else None)
    told = provenance(answer.provenance, bound=found.bound)
    said: dict[str, Any] = {"view": answer.view.name, "provenance": told}
    if not single:
        said |= {"total": total, "next": following, **(extra or {})}
    table, touched = split(answer.table.slice(found.given - answer.first, max(0, ends - found.given)))
    audit_log.of(request).rows = table.num_rows
    table, headers = table.select(columns(answer.view, found.measures)), headers_of(told, total=total, following=following)
    marks, zone = answer.provenance.exactness.marks, zone_name(answer.view)
    page = Page(table, said, headers, single, touched=touched, marks=marks, escaped=escaped, zone=zone)
    small = table.num_rows <= RENDERED_HERE
    body = rendered(page, media) if small else await server.work(principal, lambda: rendered(page, media))
    if len(body) > server.settings.response_mb << 20:
        raise Problem(
            400,
            f"the response would have {len(body)} bytes, more than {server.settings.response_mb} MB; lower limit",
        )
    return Response(body, 200, {**headers_with(entity), **echo, **({} if media == JSON else page.headers)}, media)


def entity_of(tag: str, measures: tuple[str, ...], *, bound: bool, given: int, ends: int, media: str) -> str:
    """The entity tag of rows `[given, ends)` of the answer with this tag, with these measures in this format."""
    parts = (tag, measures, bound, given, ends, media)
    return f'W/"{sha256(repr(parts).encode()).hexdigest()[:32]}"'


def headers_with(entity: str) -> dict[str, str]:
    """The headers of a response with an entity tag."""
    return {"ETag": entity, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization"}


def unchanged(method: str, given: str | None, entity: str) -> Response | None:
    """A 304 for a client that has this response already: `given` is its If-None-Match."""
    if given is not None and method == "GET" and has(given, entity):
        return Response(status_code=304, headers=headers_with(entity))
    return None


def has(given: str | None, entity: str) -> bool:
    """Whether If-None-Match contains this entity tag, by weak comparison (RFC 9110, 13.1.2)."""
    tags = {tag.strip().removeprefix("W/") for tag in (given or "").split(",")}
    return "*" in tags or entity.removeprefix("W/") in tags
