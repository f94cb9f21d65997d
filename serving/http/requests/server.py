"""What the routes of one server share."""

from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar, cast

from fastapi import Request
from structlog.typing import FilteringBoundLogger

from tandem.infra.logs.telling import Lines
from tandem.infra.settings import ServingSettings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.access.fair_pool import FairPool
from tandem.serving.access.limits import Failures, PrincipalLimits, Shares
from tandem.serving.access.oidc import IdentityProviders
from tandem.serving.access.rights import Principal
from tandem.serving.access.sealed_text import Seal
from tandem.serving.http.answer_cache.lane import Lane
from tandem.serving.http.answer_cache.release_lanes import AnyLane, ReleaseLanes
from tandem.serving.http.answer_cache.watchdog import Watchdog
from tandem.serving.http.commands import Redecode, Runs
from tandem.serving.http.metrics import Metrics
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.answer_log import AnswerLog
from tandem.serving.ingest.gateway import Gateway
from tandem.serving.sql.merged_views import Statements
from tandem.serving.status.freshness import FreshnessSampler
from tandem.serving.status.parts import Parts
from tandem.serving.status.pipeline import Pipeline
from tandem.serving.why.topic_tail import LogTail

T = TypeVar("T")

LARGE: Final = 64 << 10
"""A larger response counts as unread until the client has read it; smaller ones fit in the socket's buffers."""


@dataclass(frozen=True)
class Server:
    """One server: identities, lanes, tables, limits, logs and clocks.

    Each principal has a share of: requests (`limits`), streams of changes (`streams`), unread bytes of responses (`unread`), and
    turns of the threads of `lane`, `statements` and `pool`. `access` gets a line for each request, `audit` one for each
    question, `log` all other messages, `answers` the rows of look-ups if the settings want that.
    """

    settings: ServingSettings
    identities: IdentityProviders
    seal: Seal
    lane: Lane
    releases: ReleaseLanes
    watchdog: Watchdog
    statements: Statements
    tables: Tables
    tail: LogTail
    pipeline: Pipeline
    freshness: FreshnessSampler
    parts: Parts
    runs: Runs
    redecode: Redecode
    gateway: Gateway
    limits: PrincipalLimits
    failures: Failures
    streams: Shares
    unread: Shares
    pool: FairPool
    metrics: Metrics
    log: FilteringBoundLogger
    access: Lines
    audit: Lines
    answers: AnswerLog | None
    now: Callable[[], datetime]
    clock: Callable[[], float]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Answer requests until the context ends."""
        with self.watchdog.open(), self.pool.open(), self.releases.open():
            async with (
                self.parts.open(),
                self.freshness.open(),
                self.identities.open(),
                self.lane.open(),
                self.statements.open(),
                self.runs.open(),
                self.gateway.open(),
            ):
                yield

    async def work(self, principal: Principal, function: Callable[[], T]) -> T:
        """The result of a function in a thread, once it is the principal's turn. Raises its errors."""
        return await self.pool.run(str(principal), function)


def server_of(request: Request) -> Server:
    """The server that received a request."""
    return cast("Server", request.scope["app"].state.server)


def principal_of(request: Request) -> Principal:
    """The caller, as the gate authenticated it."""
    return cast("Principal", request.scope["state"]["principal"])


async def lane_of(request: Request, release: int | None) -> AnyLane:
    """The lane that answers a request: of the live release, or of another one, by its number.

    Raises ReadFailed; Problem 403 without the right for the other one, 429 if too many are asked; NotReady.
    """
    server, principal = server_of(request), principal_of(request)
    if release is None:
        server.lane.snapshot()
        return server.lane
    if "release" not in principal.rights.verbs:
        verbs = ", ".join(sorted(principal.rights.verbs))
        raise Problem(403, f"a question to a release that the request names needs the right 'release'; the token has {verbs}")
    return await server.releases.lane(release, by=str(principal))


def held_by(request: Request) -> ExitStack:
    """What is released once the response is sent: what the request holds of the principal's share."""
    return cast("ExitStack", request.scope["state"]["held"])
