"""Liveness, readiness, and the state of views, sources, releases and parts; the server's metrics; the caller's rights."""

import asyncio

from fastapi import APIRouter, Request, Response

from tandem.serving.http import metrics as figures
from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.status import FreshnessDocument, HealthDocument, MeDocument, StatusDocument
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries import describe
from tandem.serving.http.queries.permitted import readable
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import Server, principal_of, server_of
from tandem.serving.read.merged_layers import refusal
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.read.snapshot import Snapshot
from tandem.views.instant import utc_text
from tandem.views.source.source import Source
from tandem.views.source.united_source import all_sources
from tandem.views.view import View

router = APIRouter(route_class=Gated, tags=["health"])


@router.get("/healthz", openapi_extra={"x-verb": "open"}, responses=problems(known=False))
async def healthz() -> HealthDocument:
    """Report that the server is alive."""
    return HealthDocument(status="ok")


@router.get("/readyz", openapi_extra={"x-verb": "open"}, responses=problems(503, known=False))
async def readyz(request: Request) -> HealthDocument:
    """Report that every view can be answered, and that answers advance.

    The realtime commits reach from the cut of each source without a gap, this server computes views as they were published, and
    neither broker nor speed layer has been dead, stuck or given up for longer than `serving.stale_s`. The reasons are only for
    callers with a token: `/status` shows them.
    """
    server = server_of(request)
    if not _ready(server):
        raise Problem(503, "the server cannot answer now; /status shows the reason")
    if (late := server.parts.unready()) is not None:
        raise Problem(503, f"answers do not advance: {late.brief}; /status shows the reason and the fix")
    return HealthDocument(status="ok")


def _ready(server: Server) -> bool:
    """Whether every view can be answered."""
    if isinstance(server.lane.newest, Failed):
        return False
    try:
        pinned = server.statements.store.pinned()
    except ReadFailed:
        return False
    return pinned.snapshot.tiled and all(refusal(pinned.snapshot, view) is None for view in pinned.project.every_view.values())


@router.get("/status", openapi_extra={"x-verb": "read"}, responses=problems())
async def status(request: Request) -> StatusDocument:
    """Show what is published, and positions, cuts and problems of the views that the token may read and of their sources.

    The broker is asked at most every few seconds, and the answer does not wait long for it: `log` reports a broker that does not
    answer. A token that is restricted to rows gets no position and no count, which are of all rows.
    """
    server, principal = server_of(request), principal_of(request)
    server.lane.snapshot()

    def known(cache: AnswerCache) -> tuple[Snapshot, dict[str, Source], dict[str, View]]:
        sources = all_sources(view.source for view in cache.views().values())
        return cache.live().snapshot, sources, readable(cache.views(), principal)

    snapshot, sources, found = await server.lane.ask(known, by=str(principal))
    publication = snapshot.publication
    log, stored = await asyncio.gather(
        server.pipeline.log(sources.values(), release=publication.release), server.pipeline.stored(publication)
    )
    restricted, bound = principal.rights.restricted, bool(principal.rights.rows)
    shown = sorted(all_sources(view.source for view in found.values()))
    return StatusDocument(
        publication=publication.number,
        release=publication.release,
        at=utc_text(publication.at),
        views={name: describe.state(view, snapshot, bound=bound) for name, view in found.items()},
        sources={
            name: describe.bound_source_state(name, snapshot)
            if bound
            else describe.source_state(sources[name], snapshot, log, stored, now=server.now(), restricted=restricted)
            for name in shown
        },
        parts=describe.parts(server.parts.states, restricted=restricted),
        standing=describe.standing(stored, shown, restricted=restricted, bound=bound),
        sinks=describe.sinks(server.pipeline.sinks(snapshot), found, restricted=restricted, bound=bound),
    )


@router.get("/freshness", openapi_extra={"x-verb": "read"}, responses=problems())
async def freshness(request: Request) -> FreshnessDocument:
    """Show how far answers were behind the log by source and minute, since the server's start and for at most 24 hours.

    The server polls the log's end every five seconds; a sample is the worst of its minute. The sources are those of readable
    views. A token that is restricted to rows gets no samples, which are of all rows.
    """
    server, principal = server_of(request), principal_of(request)
    server.lane.snapshot()
    views = await server.lane.ask(lambda cache: readable(cache.views(), principal), by=str(principal))
    shown = sorted(all_sources(view.source for view in views.values()))
    samples = server.freshness.by_source
    bound = bool(principal.rights.rows)
    return FreshnessDocument(sources={name: None if bound else describe.freshness(samples.get(name)) for name in shown})


@router.get(
    "/metrics",
    openapi_extra={"x-verb": "read"},
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(request: Request) -> Response:
    """Latencies by route and status, durations of polls, and the state of each part, in the text format of Prometheus.

    `tandem metrics` prints what tables and log hold. Not for tokens restricted to rows, because the metrics count all rows.
    """
    if principal_of(request).rights.rows:
        raise Problem(403, "a token that is restricted to rows may not read the server's metrics, which count all requests")
    server = server_of(request)
    server.metrics.parts(server.parts.states)
    return Response(server.metrics.text(), headers={"Content-Type": figures.CONTENT_TYPE, "Cache-Control": "no-store"})


@router.get("/me", openapi_extra={"x-verb": "known"}, responses=problems())
async def me(request: Request) -> MeDocument:
    """Show what the token may do, and until when."""
    principal = principal_of(request)
    rights = principal.rights
    return MeDocument(
        name=principal.name,
        verbs=sorted(rights.verbs),
        views=None if rights.views is None else sorted(rights.views),
        rows=list(rights.rows),
        expires=utc_text(principal.expires),
        max_rows=server_of(request).settings.max_rows,
    )
