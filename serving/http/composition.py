"""A server of a project, assembled from its settings."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from structlog.typing import FilteringBoundLogger

from tandem.infra.logs.telling import Lines
from tandem.infra.settings import Settings
from tandem.infra.settings import secrets as secrets_of
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.watched_table import SELDOM_S
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.serving.access.fair_pool import FairPool
from tandem.serving.access.limits import Failures, PrincipalLimits, Shares
from tandem.serving.access.oidc import IdentityProviders, Oidc, provider
from tandem.serving.access.sealed_text import Seal
from tandem.serving.access.tokens import Tokens
from tandem.serving.http.answer_cache.cache import AnswerCache
from tandem.serving.http.answer_cache.lane import Lane, WholeLog
from tandem.serving.http.answer_cache.release_lanes import ReleaseLanes
from tandem.serving.http.answer_cache.watchdog import Watchdog
from tandem.serving.http.commands import Redecode, Runs, TandemCommand
from tandem.serving.http.metrics import Metrics
from tandem.serving.http.requests.answer_log import AnswerLog
from tandem.serving.http.requests.server import Server
from tandem.serving.ingest.gateway import Gateway
from tandem.serving.memory.store import Store
from tandem.serving.read.outcome import Failed
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.sql.limits import StatementLimits as Bounds
from tandem.serving.sql.merged_views import Statements
from tandem.serving.status.freshness import FreshnessSampler
from tandem.serving.status.parts import LOG_S, Parts
from tandem.serving.status.pipeline import Pipeline, TtlCache
from tandem.serving.why.topic_tail import TopicTail
from tandem.views.source.source import Source

_SECONDS: Final = 10
"""The longest time of a statement; a request may take longer."""
_THREADS: Final = 4
"""Threads that render large responses and read tables."""
_SHARE: Final = 4
"""A release that is not live gets this part of the live one's memory: the fourth."""
_MINUTE_S: Final = 60


def of_project(
    settings: Settings,
    *,
    tandem: TandemCommand,
    log: FilteringBoundLogger,
    access: Lines,
    audit: Lines,
    now: Callable[[], datetime],
    clock: Callable[[], float],
    feed: HotFeed | None = None,
    answers: AnswerLog | None = None,
    exits_if_hung: bool = False,
) -> Server:
    """The server of a project; `tandem` runs the commands of operators. With a `feed` answers also count hot commits.
    `answers` logs the rows of look-ups; with `exits_if_hung` the watchdog ends a server that hangs.

    `now` returns the time of day, `clock` monotonic seconds. Raises OidcError.
    """
    serving, metrics = settings.serving, Metrics()
    tables, hidden = Tables.of(settings), secrets_of(settings)
    store = Store(tables, secrets.randbits(64), serving.memory_mb << 20, feed)
    every, polls = serving.poll_ms / 1000, PollMetrics(metrics, log)
    releases = ReleaseLanes(
        lambda release: IfPromoted(tables, release, settings.keep.release_days, now),
        lambda asked: Store(tables, secrets.randbits(64), (serving.memory_mb << 20) // _SHARE, asked=asked),
        (serving.held_mb << 20) // _SHARE,
        every if tables.local else max(every, SELDOM_S),
        clock,
    )

    def record_poll(outcome: Snapshot | Failed, seconds: float) -> None:
        polls.polled(outcome, seconds)
        releases.drop_idle()

    def sources() -> list[Source]:
        return [*store.pinned().project.sources.values()]

    lane = Lane(AnswerCache(store, serving.held_mb << 20), every, clock, record_poll)
    if not tables.local:
        lane.rests = WholeLog(settings, clock).counted
    if feed is not None:
        feed.woken = lambda: _feed_changed(feed, metrics, lane)
    return Server(
        settings=serving,
        identities=IdentityProviders(Tokens(tables, clock), _oidc(settings, log, clock)),
        seal=Seal(tables, secrets.token_bytes),
        lane=lane,
        releases=releases,
        watchdog=Watchdog(serving.timeout_s / 2, log, exits=exits_if_hung),
        statements=Statements(
            store,
            Bounds(
                seconds=float(min(_SECONDS, serving.timeout_s)),
                rows=serving.max_rows,
                bytes=serving.response_mb << 20,
                at_once=serving.statements,
            ),
        ),
        tables=tables,
        tail=TopicTail(settings, tables),
        pipeline=Pipeline(settings, tables, now, clock),
        freshness=FreshnessSampler(settings, now, clock, lambda: lane.newest, sources),
        parts=Parts(settings, now, lambda: lane.newest, sources, TtlCache(LOG_S, clock), log),
        runs=Runs(tandem, now, log, hidden),
        redecode=Redecode(tandem, hidden),
        gateway=Gateway(settings, metrics.ingest, clock, RegistrySchemas(settings.registry, tables, now)),
        failures=Failures(serving.failed_logins / _MINUTE_S, serving.failed_logins, clock),
        limits=PrincipalLimits(serving.rate, serving.burst, serving.concurrent, clock),
        streams=Shares(serving.streams, serving.concurrent_streams),
        unread=Shares(serving.unread_mb << 20),
        pool=FairPool("answering", _THREADS),
        metrics=metrics,
        log=log,
        access=access,
        audit=audit,
        answers=answers,
        now=now,
        clock=clock,
    )


def _feed_changed(feed: HotFeed, metrics: Metrics, lane: Lane) -> None:
    metrics.hot(feed.statuses.values(), ahead=feed.ahead, compared=feed.compared, mismatched=feed.mismatched)
    lane.wake()


def _oidc(settings: Settings, log: FilteringBoundLogger, clock: Callable[[], float]) -> Oidc | None:
    def told(why: str | None) -> None:
        if why is None:
            log.info("the keys of the identity provider can be fetched again")
        else:
            log.warning("the keys of the identity provider cannot be fetched; using the cached keys", why=why)

    known = provider(settings.serving.oidc)
    return None if known is None else Oidc.of(known, clock, told=told)


@dataclass
class PollMetrics:
    """The polls of one server."""

    metrics: Metrics
    log: FilteringBoundLogger
    _why: str | None = field(default=None, init=False, repr=False)

    def polled(self, found: Snapshot | Failed, seconds: float) -> None:
        """Record a poll's result and duration in seconds."""
        why = found.reason if isinstance(found, Failed) else None
        self.metrics.polled(failed=why is not None, seconds=seconds)
        if why is None and self._why is not None:
            self.log.info("the published tables can be read again")
        elif why != self._why:
            self.log.error("the server cannot answer until the published tables can be read", why=why)
        self._why = why
