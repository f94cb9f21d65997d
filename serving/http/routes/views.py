"""Views themselves."""

from fastapi import APIRouter, Request

from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.status import ViewDescribedDocument, ViewsDocument
from tandem.serving.http.protocol.parameters import Release, View
from tandem.serving.http.queries import describe
from tandem.serving.http.queries.permitted import readable, view_for
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import lane_of, principal_of

router = APIRouter(route_class=Gated, tags=["views"])


@router.get("/views", openapi_extra={"x-verb": "read"}, responses=problems())
async def views(request: Request, release: Release = None) -> ViewsDocument:
    """List the views that the token may read."""
    lane, principal = await lane_of(request, release), principal_of(request)
    found = await lane.ask(lambda cache: readable(cache.views(), principal), by=str(principal))
    return ViewsDocument(views=[describe.summary(view) for view in found.values()])


@router.get("/views/{view}", openapi_extra={"x-verb": "read"}, responses=problems(404))
async def view(request: Request, view: View, release: Release = None) -> ViewDescribedDocument:
    """Show a view: its definition, its columns with kinds, units and docs, and its position."""
    lane, principal = await lane_of(request, release), principal_of(request)
    return await lane.ask(
        lambda cache: describe.described(
            view_for(cache.views(), view, principal), cache.live().snapshot, bound=bool(principal.rights.rows)
        ),
        by=str(principal),
    )
