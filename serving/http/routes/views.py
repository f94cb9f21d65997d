"""Views themselves."""

from fastapi import APIRouter, Request

from serving.http import describing
from serving.http.documented import problems
from serving.http.gate import Gated
from serving.http.models import ViewDescribed, Views
from serving.http.parameters import View
from serving.http.reading import readable, view_for
from serving.http.server import principal_of, server_of

router = APIRouter(route_class=Gated, tags=["views"])


@router.get("/views", openapi_extra={"x-verb": "read"}, responses=problems())
async def views(request: Request) -> Views:
    """List the views that the token may read."""
    server, principal = server_of(request), principal_of(request)
    server.asking.snapshot()
    found = await server.asking.ask(lambda answers: readable(answers.views(), principal), by=str(principal))
    return Views(views=[describing.summary(view) for view in found.values()])


@router.get("/views/{view}", openapi_extra={"x-verb": "read"}, responses=problems(404))
async def view(request: Request, view: View) -> ViewDescribed:
    """Show a view: its definition, its columns with kinds, units and docs, and how far it has come."""
    server, principal = server_of(request), principal_of(request)
    server.asking.snapshot()
    return await server.asking.ask(
        lambda answers: describing.described(
            view_for(answers.views(), view, principal), answers.live().snapshot, bound=bool(principal.rights.rows)
        ),
        by=str(principal),
    )
