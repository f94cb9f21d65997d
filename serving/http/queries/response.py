"""From what a request says to an answer, and from an answer to a response: what all routes that read rows share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any, Final

from fastapi import Request, Response

from serving.access.rights import Principal
from serving.http.answers.cache import Answer, Answers, NeedsCode
from serving.http.answers.question import Question, columns, outside, parse_measures, parse_order
from serving.http.protocol import cursor as cursors
from serving.http.protocol.cursor import Cursor
from serving.http.protocol.etags import has
from serving.http.protocol.formats import Page, accepted, headers_of, provenance, refuse_other, rendered
from serving.http.protocol.media_types import JSON
from serving.http.protocol.problem import Problem
from serving.http.requests import audit_log
from serving.http.requests.freshness import wait
from serving.http.requests.gate import KEYS
from serving.http.requests.server import lane_of, principal_of, server_of
from serving.read.past_publication import live_at
from serving.read.provenance import Layer
from serving.read.selection import ALWAYS, BadSelection, Between, parse_keys, parse_time, select
from serving.read.touched_rows import split
from views.errors import listed
from views.view import View, bind

_AT_ONCE: Final = 100
"""Up to this many rows are written in the server's own thread: to hand them to another takes longer."""


@dataclass(frozen=True)
class Asked:
    """What a request says of the rows that it wants, as it says it."""

    view: str
    keys: Sequence[str] = ()
    start: str | None = None
    end: str | None = None
    layer: Layer | None = None
    publication: int | None = None
    as_of: str | None = None
    order: str | None = None
    measures: str | None = None
    min_position: str | None = None
    max_age: str | None = None
    cursor: str | None = None
    window: str | None = None
    one: bool = False


@dataclass(frozen=True)
class Found:
    """An answer, the measures that are wanted of it, whether who asks is bound to rows, and how many were given before."""

    answer: Answer
    measures: tuple[str, ...]
    bound: bool
    given: int = 0


def key_texts(request: Request, null: Sequence[str]) -> list[str]:
    """The keys of a request as `NAME=VALUE`, `NAME` alone for NULL."""
    given = [f"{name.removeprefix(KEYS)}={value}" for name, value in request.query_params.multi_items() if name.startswith(KEYS)]
    return [*given, *(name.partition("=")[0] for name in null)]


def readable(views: Mapping[str, View], principal: Principal) -> dict[str, View]:
    """The views of which the principal may see rows, if there are any."""
    return {name: view for name, view in views.items() if principal.rights.bound(view) is not None}


def view_for(views: Mapping[str, View], name: str, principal: Principal) -> View:
    """A view that the principal may read. Raises Problem 404, the same for a forbidden view and an absent one."""
    found = views.get(name)
    if found is None or principal.rights.bound(found) is None:
        raise Problem(404, f"no view {name!r}; views: {listed(name, readable(views, principal))}")
    return found


def may_see(views: Mapping[str, View], name: str, principal: Principal) -> bool:
    """Whether the principal may know of a view of this name, of whatever release, beside those that are live (`views`).

    Who is bound to rows may only where the live view of that name has them: another one may have had other keys.
    """
    rights = principal.rights
    if rights.views is not None and name not in rights.views:
        return False
    return not rights.rows or (name in views and rights.bound(views[name]) is not None)


async def find(request: Request, asked: Asked) -> Found:
    """Answer a request, once the answer is as fresh as it asks. Raises Problem, BadSelection, Gone, ReadFailed."""
    server, principal = server_of(request), principal_of(request)
    if asked.publication is not None and asked.as_of is not None:
        raise BadSelection("publication and as_of cannot be combined")
    past = asked.publication is not None or asked.as_of is not None
    if past and (asked.min_position or asked.max_age):
        raise BadSelection("min_position and max_age cannot be combined with publication or as_of")
    lane = server.asking if past else await lane_of(server, asked.view)
    if not past:
        lane.snapshot()
    if asked.min_position or asked.max_age:
        view = await lane.ask(lambda answers: view_for(answers.views(), asked.view, principal), by=str(principal))
        await wait(
            server,
            lane,
            view.source.name,
            min_position=asked.min_position,
            max_age=asked.max_age,
            at_the_cut=asked.layer == "batch",
            bound=bool(principal.rights.rows),
        )
    try:
        return await lane.ask(lambda answers: _answered(answers, principal, asked), by=str(principal))
    except NeedsCode:  # of a release of the past, or of a release that was published meanwhile
        lane = await server.coded.opened()
        return await lane.ask(lambda answers: _answered(answers, principal, asked), by=str(principal))


def _answered(answers: Answers, principal: Principal, asked: Asked) -> Found:
    number = asked.publication if asked.as_of is None else live_at(answers.store.tables, time_of(asked.as_of))
    view = view_for(answers.views(number), asked.view, principal)
    question = question_of(view, principal, asked, number)
    measures = parse_measures(view, asked.measures)
    bound = bool(principal.rights.rows)
    if asked.cursor is None:
        return Found(answers.answer(question), measures, bound)
    at = cursors.parse(asked.cursor)
    if at.digest != question.digest:
        raise BadSelection("the cursor belongs to another query; change no parameters other than limit and measures")
    return Found(answers.answer(question, stand=at.stand), measures, bound, at.given)


def question_of(view: View, principal: Principal, asked: Asked, publication: int | None) -> Question:
    """The question to a view that a principal may read. Raises BadSelection, and Problem 403 for keys that they may not see.

    No row would read as that nothing was counted. Whether anything was makes no difference.
    """
    named, bound = parse_keys(view, asked.keys), principal.rights.bound(view) or {}
    if outside(named, bound):
        rows = ", ".join(principal.rights.rows)
        raise Problem(403, f"the token is narrowed to rows with {rows}")
    keys = {**named, **bound}
    between = (time_of(asked.start) if asked.start else None, time_of(asked.end) if asked.end else None)
    if asked.one:
        _refuse_missing(view, asked)
        between = _window(view, asked.window)
    select(view, keys, between)  # says now what is wrong with it
    return Question(
        view,
        keys,
        between,
        asked.layer or ("merged" if publication is None else "batch"),
        publication,
        parse_order(view, asked.order) if asked.order is not None else (),
    )


def time_of(text: str) -> datetime:
    """A time in UTC. Raises BadSelection."""
    try:
        return parse_time(text).astimezone(UTC)
    except OverflowError:
        raise BadSelection(f"the time {text!r} is outside the years 1 to 9999") from None


def _window(view: View, start: str | None) -> Between:
    """What only windows with this start are in."""
    if not bind(view).placement.timed:
        if start is not None:
            raise BadSelection(f"view {view.name!r} is of all time, so it has no windows to choose from")
        return ALWAYS
    if start is None:
        raise BadSelection(
            f"view {view.name!r} has windows ({view.window}); add the start of a window, such as window=2026-11-01T08:00"
        )
    at = time_of(start)
    try:
        return at, at + timedelta(microseconds=1)
    except OverflowError:
        return at, None


def _refuse_missing(view: View, asked: Asked) -> None:
    named = {text.partition("=")[0] for text in asked.keys}
    missing = [name for name in view.keys if name not in named]
    if missing:
        raise BadSelection(f"one row of view {view.name!r} needs all of its keys; missing: {', '.join(missing)}")


async def responded(
    request: Request,
    found: Found,
    *,
    limit: int | None,
    escaped: bool,
    single: bool = False,
    extra: Mapping[str, Any] | None = None,
) -> Response:
    """The rows from `found.given` on, at most `limit`; `extra` is said beside them. A 304 to who has the same already."""
    server, principal, answer = server_of(request), principal_of(request), found.answer
    media = accepted(request.headers.get("accept"))
    refuse_other(media, escaped=escaped)
    total = answer.table.num_rows
    ends = total if limit is None else min(total, found.given + limit)
    written = f"{media}; escaped" if escaped else media
    entity = entity_of(answer.tag, found.measures, bound=found.bound, given=found.given, ends=ends, media=written)
    if (same := unchanged(request, entity)) is not None:
        return same
    following = None
    if ends < total:
        following = cursors.to_text(Cursor(answer.stand, answer.digest, ends))
    told = provenance(answer.provenance, bound=found.bound)
    said: dict[str, Any] = {"view": answer.view.name, "provenance": told}
    if not single:
        said |= {"total": total, "next": following, **(extra or {})}
    table, touched = split(answer.table.slice(found.given, max(0, ends - found.given)))
    audit_log.of(request).rows = table.num_rows
    table, headers = table.select(columns(answer.view, found.measures)), headers_of(told, total=total, following=following)
    page = Page(table, said, headers, single, touched=touched, marks=answer.provenance.exactness.marks, escaped=escaped)
    small = table.num_rows <= _AT_ONCE
    body = rendered(page, media) if small else await server.work(principal, lambda: rendered(page, media))
    if len(body) > server.settings.response_mb << 20:
        raise Problem(
            400,
            f"the response would have {len(body)} bytes, more than {server.settings.response_mb} MB; lower limit",
        )
    return Response(body, 200, {**headers_with(entity), **({} if media == JSON else page.headers)}, media)


def entity_of(tag: str, measures: tuple[str, ...], *, bound: bool, given: int, ends: int, media: str) -> str:
    """The entity tag of rows `[given, ends)` of the answer that is tagged so, with these measures in this format."""
    parts = (tag, measures, bound, given, ends, media)
    return f'W/"{sha256(repr(parts).encode()).hexdigest()[:32]}"'


def headers_with(entity: str) -> dict[str, str]:
    """The headers of what has an entity tag."""
    return {"ETag": entity, "Cache-Control": "private, no-cache", "Vary": "Accept, Authorization"}


def unchanged(request: Request, entity: str) -> Response | None:
    """A 304 for who has this already."""
    if request.method == "GET" and has(request.headers.get("if-none-match"), entity):
        return Response(status_code=304, headers=headers_with(entity))
    return None
