"""What the routes of one server share, and the parameters of a request that every route refuses alike."""

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, cast

from fastapi import Request
from structlog.typing import FilteringBoundLogger

from infra.settings import Serving
from ledger.tables import Tables
from serving.access.identity import Identities
from serving.access.limits import Limits
from serving.access.rights import Principal
from serving.http.asking import Asking
from serving.http.metrics import Metrics
from serving.http.pipeline import Pipeline
from serving.http.retrying import Retrying
from serving.http.runs import Runs
from serving.http.statements import Statements

_STREAMS: Final = 200
"""Streams of changes that are open at a time."""


@dataclass(frozen=True)
class Server:
    """One server: whom it knows, whom it asks, its limits and its clocks.

    `access` gets a line for each request, `log` what else there is to say.
    """

    settings: Serving
    identities: Identities
    asking: Asking
    statements: Statements
    tables: Tables
    pipeline: Pipeline
    runs: Runs
    retrying: Retrying
    limits: Limits
    metrics: Metrics
    log: FilteringBoundLogger
    access: FilteringBoundLogger
    now: Callable[[], datetime]
    clock: Callable[[], float]
    streams: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_STREAMS))

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Answer from now on, until the context ends."""
        async with self.asking.open(), self.statements.open(), self.runs.open():
            yield


def server_of(request: Request) -> Server:
    """The server that a request came to."""
    return cast("Server", request.app.state.server)


def principal_of(request: Request) -> Principal:
    """Who asks, as the gate has found."""
    return cast("Principal", request.state.principal)
