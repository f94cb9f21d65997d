"""The state of views, sources, releases and parts."""

import asyncio

from fastapi import APIRouter, Request

from tandem.serving.http.answers.cache import AnswerCache
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.status import StatusDocument
from tandem.serving.http.queries import describe
from tandem.serving.http.queries.permitted_views import readable
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of
from tandem.serving.read.snapshot import Snapshot
from tandem.views.instant import utc_text
from tandem.views.source.source import Source
from tandem.views.view import View

router = APIRouter(route_class=Gated, tags=["health"])


@router.get("/status", openapi_extra={"x-verb": "read"}, responses=problems())
async def status(request: Request) -> StatusDocument:
    """Show what is published, and positions, cuts and problems of the views that the token may read and of their sources.

    The broker is asked at most every few seconds, and the answer does not wait long for it: `log` reports a broker that does not
    answer. A token that is restricted to rows gets no position and no count, which are of all rows.
    """
    server, principal = server_of(request), principal_of(request)
    server.lane.snapshot()

    def known(cache: AnswerCache) -> tuple[Snapshot, dict[str, Source], dict[str, View]]:
        sources = {view.source.name: view.source for view in cache.views().values()}
        return cache.live().snapshot, sources, readable(cache.views(), principal)

    snapshot, sources, found = await server.lane.ask(known, by=str(principal))
    publication = snapshot.publication
    log, stored = await asyncio.gather(
        server.pipeline.log(sources.values(), release=publication.release), server.pipeline.stored(publication)
    )
    restricted, bound = principal.rights.restricted, bool(principal.rights.rows)
    shown = sorted({view.source.name for view in found.values()})
    return StatusDocument(
        publication=publication.number,
        release=publication.release,
        at=utc_text(publication.at),
        views={name: describe.state(view, snapshot, bound=bound) for name, view in found.items()},
        sources={
            name: describe.bound_source_state(name, snapshot)
            if bound
            else describe.source_state(name, snapshot, log, stored, restricted=restricted)
            for name in shown
        },
        parts=describe.parts(server.parts.states, restricted=restricted),
        standing=describe.standing(stored, shown, restricted=restricted, bound=bound),
    )
