"""The server's own metrics."""

from fastapi import APIRouter, Request, Response

from serving.http import metrics as figures
from serving.http.models.openapi import problems
from serving.http.protocol.problem import Problem
from serving.http.requests.gate import Gated
from serving.http.requests.server import Server, principal_of, server_of
from serving.http.workers.joined_metrics import joined
from serving.http.workers.peers import METRICS

router = APIRouter(route_class=Gated, tags=["health"])


@router.get(
    "/metrics",
    openapi_extra={"x-verb": "read"},
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **problems()},
)
async def metrics(request: Request) -> Response:
    """Latencies by route and status, durations of polls, and the state of each part, in the text format of Prometheus.

    Those of all workers, each with the label `worker`, but for the states of the parts and of hot tails.
    `tandem metrics` prints what tables and log hold. Not for tokens restricted to rows, because the metrics count all rows.
    """
    if principal_of(request).rights.rows:
        raise Problem(403, "a token that is restricted to rows may not read the server's metrics, which count all requests")
    server = server_of(request)
    text = text_of(server)
    if server.peers is not None:
        others = await server.peers.ask(METRICS)
        text = joined(
            text, server.peers.number, {one: found.content for one, found in others.items()}, workers=len(server.peers.sockets)
        )
    return Response(text, headers={"Content-Type": figures.CONTENT_TYPE, "Cache-Control": "no-store"})


def text_of(server: Server) -> bytes:
    """The metrics of this process."""
    server.metrics.parts(server.parts.states)
    return server.metrics.text()
