"""How far everything has come."""

from fastapi import APIRouter, Request

from serving.http import describing
from serving.http.answers import Answers
from serving.http.documented import problems
from serving.http.gate import Gated
from serving.http.models import Status
from serving.http.reading import readable
from serving.http.server import principal_of, server_of

router = APIRouter(route_class=Gated, tags=["health"])


@router.get("/status", openapi_extra={"x-verb": "read"}, responses=problems())
async def status(request: Request) -> Status:
    """Show what is published, and positions, cuts and problems of the views that the token may read and of their sources."""
    server, principal = server_of(request), principal_of(request)
    server.asking.snapshot()

    def shown(answers: Answers) -> Status:
        snapshot = answers.live().snapshot
        found = readable(answers.views(), principal)
        sources = sorted({view.source.name for view in found.values()})
        return Status(
            publication=snapshot.publication.number,
            release=snapshot.publication.release,
            at=snapshot.publication.at.isoformat().replace("+00:00", "Z"),
            views={name: describing.state(view, snapshot) for name, view in found.items()},
            sources={name: describing.source_state(name, snapshot) for name in sources},
        )

    return await server.asking.ask(shown)
