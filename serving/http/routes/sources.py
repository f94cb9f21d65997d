"""Sources: what their records are, and which of them accept events."""

from fastapi import APIRouter, Request

from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.sources import SourceDescribedDocument, SourcesDocument
from tandem.serving.http.protocol.parameters import Source
from tandem.serving.http.queries import describe
from tandem.serving.http.queries.permitted_sources import known, source_for
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of

router = APIRouter(route_class=Gated, tags=["sources"])


@router.get("/sources", openapi_extra={"x-verb": "known"}, responses=problems())
async def sources(request: Request) -> SourcesDocument:
    """List the sources whose views the token may read, or to which it may send events, with what their records are."""
    principal = principal_of(request)
    project = server_of(request).lane.cache.store.pinned().project
    found = known(project, principal)
    return SourcesDocument(sources=[describe.source(project, source, principal) for source in found.values()])


@router.get("/sources/{source}", openapi_extra={"x-verb": "known"}, responses=problems(404))
async def source(request: Request, source: Source) -> SourceDescribedDocument:
    """Show a source: its topics, its decoder, the fields of its events with kinds, units and docs, how duplicates are found."""
    principal = principal_of(request)
    project = server_of(request).lane.cache.store.pinned().project
    return describe.source(project, source_for(project, source, known(project, principal)), principal)
