"""What the routes of one server share, and the parameters of a request that every route refuses alike."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import cast

from fastapi import Request
from structlog.typing import FilteringBoundLogger

from infra.settings import Serving
from serving.access.identity import Identities
from serving.access.limits import Limits
from serving.access.rights import Principal
from serving.http.asking import Asking
from serving.http.metrics import Metrics


@dataclass(frozen=True)
class Server:
    """One server: whom it knows, whom it asks, its limits and its clocks.

    `access` gets a line for each request, `log` what else there is to say.
    """

    settings: Serving
    identities: Identities
    asking: Asking
    limits: Limits
    metrics: Metrics
    log: FilteringBoundLogger
    access: FilteringBoundLogger
    now: Callable[[], datetime]
    clock: Callable[[], float]


def server_of(request: Request) -> Server:
    """The server that a request came to."""
    return cast("Server", request.app.state.server)


def principal_of(request: Request) -> Principal:
    """Who asks, as the gate has found."""
    return cast("Principal", request.state.principal)
