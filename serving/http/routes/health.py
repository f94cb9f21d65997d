"""Whether the server is there, and whether it can answer: for whoever restarts it or sends requests to it. Open to all."""

from fastapi import APIRouter
from starlette.requests import Request

from serving.http.models.documents import Health
from serving.http.models.openapi import problems
from serving.http.protocol.problem import Problem
from serving.http.requests.gate import Gated
from serving.http.requests.server import Server, server_of
from serving.read.outcome import Failed, ReadFailed
from serving.read.reader import refusal

router = APIRouter(route_class=Gated, tags=["health"])


@router.get("/healthz", openapi_extra={"x-verb": "open"}, responses=problems(known=False))
async def healthz() -> Health:
    """Say that the server is there."""
    return Health(status="ok")


@router.get("/readyz", openapi_extra={"x-verb": "open"}, responses=problems(503, known=False))
async def readyz(request: Request) -> Health:
    """Say that every view can be answered, and that answers go on: the realtime commits reach from the cut of each source without
    a gap, this server computes what is published as it was computed, and neither broker nor speed layer has been dead, stuck or
    given up for longer than `serving.stale_s`.

    Why not is for those who are known: `/status` tells them.
    """
    server = server_of(request)
    if not _ready(server):
        raise Problem(503, "the server cannot answer now; /status shows the reason")
    if (late := server.parts.unready()) is not None:
        raise Problem(503, f"answers do not advance: {late.brief}; /status shows the reason and the fix")
    return Health(status="ok")


def _ready(server: Server) -> bool:
    if isinstance(server.lane.newest, Failed):
        return False
    try:
        pinned = server.statements.store.pinned()
    except ReadFailed:
        return False
    return pinned.snapshot.tiled and all(refusal(pinned.snapshot, view) is None for view in pinned.project.views.values())
