"""The server's own metrics."""

from fastapi import APIRouter, Request, Response

from tandem.serving.http import metrics as figures
from tandem.serving.http.models.openapi import problems
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.gate import Gated
from tandem.serving.http.requests.server import principal_of, server_of

router = APIRouter(route_class=Gated, tags=["health"])


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
