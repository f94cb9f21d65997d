"""Rows of a view as they change, as server-sent events."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import pyarrow as pa
from fastapi import APIRouter, Header, Request, Response
from fastapi.responses import StreamingResponse

from tandem.serving.access.rights import Principal
from tandem.serving.changes import HEARTBEAT_S, Changes, ViewFollower, reaching, watch
from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.http.answer_cache.release_lanes import AnyLane
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.protocol.formats import provenance, rows_of
from tandem.serving.http.protocol.media_types import JSON
from tandem.serving.http.protocol.parameters import (
    KEY_VALUES,
    LateRows,
    Measures,
    Null,
    OutputName,
    Release,
    Since,
    View,
    WhenSent,
    Where,
    key_texts,
)
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.parse import parse_measures, restricted
from tandem.serving.http.queries.permitted import view_for
from tandem.serving.http.queries.respond import RENDERED_HERE
from tandem.serving.http.requests import audit_log
from tandem.serving.http.requests.audit_log import Inquiry
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import LARGE, Server, held_by, lane_of, principal_of, server_of
from tandem.serving.memory.changes_token import ChangesToken, TokenGone
from tandem.serving.memory.store import Pinned, Store
from tandem.serving.read.outcome import Absent, Value
from tandem.serving.read.outputs import envelopes
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.read.selection import BadSelection, parse_keys
from tandem.serving.read.touched_rows import marked, split
from tandem.serving.read.window_zone import rows_with_local, zone_name
from tandem.views.errors import TandemError

_STREAM: Final = "text/event-stream"
_EVENT: Final = 'id: TOKEN\nevent: rows\ndata: {"rows":[{"page":"/a","n":3}],"gone":[],"provenance":{}}\n\n'

PIECE_ROWS: Final = 500
"""Rows of a complete snapshot that are rendered at once."""

_NO_ROOM: Final = (
    "this update needs {size} bytes until the client has read it, clients have not read {unread} bytes yet, and "
    "serving.unread_mb bounds both; continue from the last token later, or choose fewer rows with `where`"
)

_GONE: Final = "the token has expired; read all rows again"
"""The detail for a caller that is restricted to rows, instead of a reason that may name positions."""

router = APIRouter(route_class=Gated, tags=["rows"])


@router.get(
    "/views/{view}/changes",
    openapi_extra={"x-verb": "read", **KEY_VALUES},
    response_class=StreamingResponse,
    responses={
        200: {"content": {_STREAM: {"schema": {"type": "string"}, "example": _EVENT}, JSON: {"schema": {"type": "object"}}}},
        **problems(404, 410),
    },
)
async def changes(
    request: Request,
    view: View,
    *,
    since: Since = None,
    where: Where = None,
    null: Null = [],  # noqa: B006  FastAPI copies it
    measures: Measures = None,
    output: OutputName = "update",
    late: LateRows = "send",
    when: WhenSent = "commit",
    release: Release = None,
    last_event_id: Annotated[str | None, Header(description="As `since`; sent by an EventSource when it reconnects.")] = None,
) -> Response:
    """Rows that changed since the last update, whenever answers change: server-sent events `rows`.

    The id of an event is a token. From it, `since` or the header Last-Event-ID continues without loss or repetition, at any
    server of the project while the tables have the history, and for 30 seconds at the server that sent the event; those of the
    last event begin when the stream ends. Then 410. A token that counts hot commits is only valid at the server that sent it,
    and there, after the 30 seconds, for a second or a few, most often.
    With `where` or values of keys, a row that begins to match is in `rows`, and a row that stops matching is in `gone`; continue
    with the same ones. An event that has an id alone moves the token on while nothing matches.
    `gone` has the keys and windows of deleted rows. With `output=append` `late` has the changed rows of windows that were final
    before, or their number. With `output=changes` events are `changes`: each has `op` (c, u, d, or r for a row at the
    beginning), `before` and `after`. Without a token both begin with all their rows, in one event.
    An event `over` gives the reason why a stream ends: request all rows again.
    The stream ends when the token expires.
    With `Accept: application/json` the answer is one document, at once: the data of the next event, without rows if nothing
    changed, and its id as `token`. Without a token it has the current one.
    """
    server, principal = server_of(request), principal_of(request)
    who, text, once = str(principal), since or last_event_id, request.headers.get("accept") == JSON
    if once and when != "commit":
        raise Problem(400, f"when={when} needs a stream of events; leave it out, or accept {_STREAM}")
    if not server.streams.take(who):
        said = f"{server.streams.held(who)} streams of this token are open, which is its limit now; close one, then try again"
        raise Problem(429, said, headers={"Retry-After": "1"})
    held_by(request).callback(server.streams.give_back, who)
    lane = await lane_of(request, release)

    def seen(cache: AnswerCache) -> tuple[Store, Pinned, RowsWanted, ChangesToken | None, str | None]:
        of = view_for(cache.views(), view, principal)
        keys = restricted(of, principal, parse_keys(of, key_texts(request.query_params.multi_items(), null)))
        columns = parse_measures(of, measures)
        wanted = RowsWanted(keys, where, columns, simple=True, output=output, late=late, when=when)
        token = _token(server, principal, text)
        reaching(cache.store, view, token)
        cache.pin()
        return cache.store, cache.live(), wanted, token, zone_name(of)

    store, pinned, wanted, token, zone = await lane.ask(seen, by=who)
    try:
        # Not in the lane's thread: the earlier publication may have to be read whole.
        watching = await server.work(
            principal,
            lambda: watch(store, pinned, view, token, wanted),
        )
    except TokenGone as error:
        raise Problem(410, _GONE if principal.rights.rows else str(error)) from error
    if once:
        return await _once(request, watching, pinned, zone)
    shown = request.headers["authorization"].partition(" ")[2].strip()
    return StreamingResponse(
        _events(server, lane, principal, watching, zone=zone, shown=shown, asked=audit_log.of(request)),
        media_type=_STREAM,
        headers={"Cache-Control": "no-store"},
    )


def _token(server: Server, principal: Principal, text: str | None) -> ChangesToken | None:
    """The client's token. A caller restricted to rows can neither read nor create one, because tokens contain positions."""
    if text is None:
        return None
    plain = server.seal.open(text) if principal.rights.rows else text
    if plain is None:
        raise BadSelection(f"invalid token {text!r}; use the id of an event of this stream")
    try:
        return ChangesToken.parse(plain)
    except TandemError as error:
        raise BadSelection(str(error)) from error


async def _once(request: Request, watching: ViewFollower, pinned: Pinned, zone: str | None) -> Response:
    """The changes up to a snapshot as one document, with the token from which the next request continues."""
    server, principal = server_of(request), principal_of(request)
    bound, most = bool(principal.rights.rows), server.settings.response_mb << 20

    def document() -> tuple[Changes, bytes]:
        update = watching.look(pinned, always=True, renew=True)
        assert update is not None, "an update is due at once, with a newer token"
        if update.size > server.settings.max_rows:
            raise Problem(
                400, f"{update.size} rows changed; the limit is {server.settings.max_rows}; narrow them, or read all rows"
            )
        content = {"token": _token_text(update, server, bound=bound), **_data(update, watching.output, zone, bound=bound)}
        return update, msgspec.json.encode(content)

    try:
        update, body = await server.work(principal, document)
    except TokenGone as error:
        raise Problem(410, _GONE if bound else str(error)) from error
    if len(body) > most:
        raise Problem(400, f"the response would have {len(body)} bytes; the limit is {most}; narrow the rows")
    audit_log.of(request).rows = update.size
    watching.sent(update)
    return Response(body, 200, {"Cache-Control": "no-store"}, JSON)


async def _events(
    server: Server,
    lane: AnyLane,
    principal: Principal,
    watching: ViewFollower,
    *,
    zone: str | None,
    shown: str,
    asked: Inquiry,
) -> AsyncIterator[bytes]:
    who, bound, sent = str(principal), bool(principal.rights.rows), server.clock()
    try:
        while True:
            if await server.work(principal, lambda: server.identities.whose(shown, now=server.now())) is None:
                yield _over("the token is expired or revoked")
                return
            before = lane.newest
            always = server.clock() - sent >= HEARTBEAT_S
            if watching.quick:
                update = await lane.ask(lambda cache: watching.look(cache.live(), always=always), by=who)  # noqa: B023
            else:
                # It takes longer than others may wait for the lane, which answers everybody.
                pinned = await lane.ask(lambda cache: cache.live(), by=who)
                update = await server.work(principal, partial(watching.look, pinned, always=always))
            if update is not None:
                pieces = event_pieces(update, watching.output, server, zone, bound=bound)
                piece = next(pieces) if update.size <= RENDERED_HERE else await server.work(principal, partial(next, pieces))
                asked.rows = (asked.rows or 0) + update.size
                # In pieces it keeps its rows until the last one is read.
                nbytes = update.rows.table.nbytes if _in_pieces(update) else len(piece)
                size = nbytes if nbytes > LARGE else 0
                if size and not server.unread.take(who, size):
                    yield _over(_NO_ROOM.format(size=size, unread=server.unread.used))
                    return
                watching.sent(update)
                try:
                    while piece:
                        yield piece
                        piece = await server.work(principal, partial(next, pieces, b"")) if _in_pieces(update) else b""
                finally:
                    server.unread.give_back(who, size)
                sent = server.clock()
            wait_s, most = watching.wait_s, server.settings.wait_s
            if not await lane.another(before, seconds=most if wait_s is None else min(most, wait_s)):
                yield b": still here\n\n"
    except TandemError as error:
        yield _over(_GONE if bound else str(error))
    finally:
        watching.keep()


def event_pieces(update: Changes, output: str, server: Server, zone: str | None, *, bound: bool) -> Iterator[bytes]:
    """The event of an update; a complete snapshot of many rows in pieces, so that its text is never in memory as a whole."""
    if not _in_pieces(update):
        yield _event(update, output, server, zone, bound=bound)
        return
    whole, place = update.rows, update.gone.column_names
    head, brackets, tail = _event(replace(update, rows=_slice(whole, 0, 0)), output, server, zone, bound=bound).partition(b"[]")
    assert brackets, "an event begins with its list of rows"
    yield head + b"["
    for start in range(0, whole.table.num_rows, PIECE_ROWS):
        rows = _rows(_slice(whole, start, PIECE_ROWS), zone)
        listed = msgspec.json.encode(envelopes(place, [], rows, first=True) if output == "changes" else rows)[1:-1]
        yield b"," + listed if start else listed
    yield b"]" + tail


def _in_pieces(update: Changes) -> bool:
    return update.first and update.rows.table.num_rows > PIECE_ROWS


def _slice(answer: Value | Absent, start: int, rows: int) -> Value | Absent:
    """Some rows of an answer, with the number of all."""
    if isinstance(answer, Absent):
        return answer
    touched = None if answer.touched is None else answer.touched.slice(start, rows)
    return replace(answer, table=answer.table.slice(start, rows), touched=touched)


def _event(update: Changes, output: str, server: Server, zone: str | None, *, bound: bool) -> bytes:
    """An event with the rows, with windows in the view's zone, too; its id alone without any."""
    token = _token_text(update, server, bound=bound)
    if update.empty:
        return f"id: {token}\n\n".encode()
    kind = "changes" if output == "changes" else "rows"
    return (
        f"id: {token}\nevent: {kind}\ndata: ".encode() + msgspec.json.encode(_data(update, output, zone, bound=bound)) + b"\n\n"
    )


def _token_text(update: Changes, server: Server, *, bound: bool) -> str:
    """The token as the caller gets it."""
    return server.seal.close(update.token) if bound else update.token


def _data(update: Changes, output: str, zone: str | None, *, bound: bool) -> dict[str, Any]:
    """The document of an update."""
    rows, late = _rows(update.rows, zone), update.late
    answers = [update.rows] if isinstance(late, int) else [update.rows, late]
    document: dict[str, Any]
    if output == "changes":
        before = _without_labels(update, update.before, zone)
        document = {"changes": envelopes(update.gone.column_names, before, rows, first=update.first)}
    else:
        document = {"rows": rows, "gone": _without_labels(update, update.gone, zone)}
    if output == "append":
        document["late"] = late if isinstance(late, int) else _rows(late, zone)
    told = next((answer.provenance for answer in answers if answer.provenance.exactness.marked), update.provenance)
    document["provenance"] = provenance(told, bound=bound)
    return document


def _rows(answer: Value | Absent, zone: str | None) -> list[dict[str, Any]]:
    """Rows as JSON has them, each with its own reasons."""
    rows, touched = split(answer.with_touched())
    return rows_with_local(marked(rows_of(rows), touched, answer.provenance.exactness.marks), zone)


def _without_labels(update: Changes, rows: pa.Table, zone: str | None) -> list[dict[str, Any]]:
    """Rows, or their keys and windows, as JSON has them."""
    columns = [column for column in update.rows.table.schema if column.name in rows.column_names]
    return rows_with_local(rows_of(rows.select([column.name for column in columns]).cast(pa.schema(columns))), zone)


def _over(why: str) -> bytes:
    return b"event: over\ndata: " + msgspec.json.encode({"detail": why}) + b"\n\n"
