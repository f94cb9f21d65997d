"""Liveness and readiness, for whatever restarts the server or routes requests to it. Open to every caller."""

from fastapi import APIRouter
from starlette.requests import Request

from tandem.serving.http.models.openapi import problems
from tandem.serving.http.models.status import HealthDocument
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import Server, server_of
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.read.reader import refusal

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
    return pinned.snapshot.tiled and all(refusal(pinned.snapshot, view) is None for view in pinned.project.views.values())
