"""Whether the server is there, and whether it can answer: for whoever restarts it or sends requests to it. Open to all."""

from fastapi import APIRouter
from starlette.requests import Request

from serving.http.documented import problems
from serving.http.gate import Gated
from serving.http.models import Health
from serving.http.problem import Problem
from serving.http.server import server_of
from serving.outcome import Failed

router = APIRouter(route_class=Gated, tags=["health"])


@router.get("/healthz", openapi_extra={"x-verb": "open"}, responses=problems(known=False))
async def healthz() -> Health:
    """Say that the server is there."""
    return Health(status="ok")


@router.get("/readyz", openapi_extra={"x-verb": "open"}, responses=problems(503, known=False))
async def readyz(request: Request) -> Health:
    """Say that every view can be answered: the realtime commits reach from the cut of each source without a gap.

    Why not is for those who are known: `/status` tells them.
    """
    newest = server_of(request).asking.newest
    if isinstance(newest, Failed) or not newest.tiled:
        raise Problem(503, "answers cannot be given now; /status says why")
    return Health(status="ok")
