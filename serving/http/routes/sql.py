"""SQL over the views that a token may read."""

from typing import Final

from fastapi import APIRouter, Request, Response

from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.http.answer_cache.release_lanes import ReleaseLane
from tandem.serving.http.models.openapi import rows as documented
from tandem.serving.http.models.rows import SelectedDocument, StatementDocument
from tandem.serving.http.protocol.formats import Page, accepted, headers_of, provenance, refuse_other, rendered
from tandem.serving.http.protocol.media_types import JSON
from tandem.serving.http.protocol.parameters import Escaped, MinPosition, Release
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.answer_question import ask_all_fresh
from tandem.serving.http.queries.monotonic import HEADER, monotonic_floor
from tandem.serving.http.queries.permitted import readable
from tandem.serving.http.requests import audit_log
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import lane_of, principal_of, server_of
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.sql.merged_views import MergedRows
from tandem.serving.sql.messages import Reason, StatementRefused
from tandem.serving.sql.result_rows import to_rows

_STATUS: Final[dict[Reason, int]] = {"statement": 400, "limit": 400, "view": 404, "failed": 503}

router = APIRouter(route_class=Gated, tags=["rows"])


@router.post(
    "/sql", openapi_extra={"x-verb": "sql"}, response_model=SelectedDocument, responses=documented(413, conditional=False)
)
async def sql(
    request: Request,
    body: StatementDocument,
    *,
    min_position: MinPosition = None,
    release: Release = None,
    escaped: Escaped = False,
) -> Response:
    """The rows of one SELECT, in DuckDB's SQL, over the views that the token may read, each of them a table, at one snapshot.

    It runs in its own process, which can open nothing and has limits of time, memory and rows. Not for tokens that are bound to
    rows. With `min_position` it waits until all readable views that count topics of that position count it.
    """
    server, principal = server_of(request), principal_of(request)
    if principal.rights.rows:
        raise Problem(403, "a token that is restricted to rows may not use SQL; read its rows at /views/{view}/rows")
    media = accepted(request.headers.get("accept"))
    refuse_other(media, escaped=escaped)
    lane, floor = await lane_of(request, release), monotonic_floor(request)
    of_release = None
    if isinstance(lane, ReleaseLane):
        of_release = lane.statements
        await lane.ask(AnswerCache.live, by=str(principal))  # which polls
    known = readable(lane.cache.store.pinned().project.every_view, principal)

    async def ask() -> tuple[Snapshot | None, MergedRows]:
        rows = await server.statements.run(body.statement, readable=known, by=str(principal), among=of_release)
        return rows.snapshot, rows

    try:
        if min_position is None and floor is None:
            _, found = await ask()
        else:
            found = await ask_all_fresh(server, lane, known.values(), ask, min_position=min_position, floor=floor)
    except StatementRefused as refused:
        raise Problem(_STATUS[refused.reason], str(refused)) from refused
    told = found.summary({name: provenance(one, bound=False) for name, one in found.provenance.items()})
    total = found.table.num_rows
    asked = audit_log.of(request)
    asked.views, asked.rows = sorted(found.provenance), total
    page = Page(
        found.table,
        {"total": total, "provenance": told},
        headers_of(told, total=total, following=None),
        rows_of=to_rows,
        escaped=escaped,
    )
    content = await server.work(principal, lambda: rendered(page, media))
    headers = {"Cache-Control": "no-store", **({} if media == JSON else page.headers)}
    if floor is not None:
        headers[HEADER] = floor.plus((known[name], each) for name, each in found.provenance.items()).text(None)
    return Response(content, 200, headers, media)
