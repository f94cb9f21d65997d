"""Follow one source's log from where commits end: read, fold, hand over to commits, and compare with them."""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

import msgspec
import pyarrow as pa

from tandem.infra import kafka
from tandem.infra.kafka.bulk_reader import BulkReader
from tandem.infra.kafka.source_topics import topics_of
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.delta.watched_table import SELDOM_S
from tandem.ledger.hot.chain import LOOK_S, HotChange
from tandem.ledger.hot.messages import HotMessage, HotStatus, message_of
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.counts import plus
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.positions import Position, upper
from tandem.ledger.log.registry_schemas import of_source
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Release
from tandem.ledger.realtime.commits import Commit, newest_caught_up
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain
from tandem.ledger.same_log import refuse_cut_log
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.siphash import SECRET_BYTES
from tandem.speed.dedup.within_task import identified, identities, values
from tandem.speed.hot.comparison import alike, differing
from tandem.speed.hot.heavy_views import HeavyViews
from tandem.speed.hot.hot_tail import Covered, HotTail, split, states
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.task import Task
from tandem.speed.source.counted_at import counted, divided, earlier_topic
from tandem.speed.source.known_tables import tables_of_views
from tandem.speed.source.overflow import overflow_of_hot_tail
from tandem.speed.source.restore_identities import begun, numbered, unseen
from tandem.speed.source.start_position import present_log, without_newcomers
from tandem.views.arrow.arrays import from_ipc
from tandem.views.composite.table import looked_up
from tandem.views.errors import TandemError
from tandem.views.kernel.kernel import decode
from tandem.views.source.offset_ranges import Offsets, Partition
from tandem.views.source.source import Source, record_columns
from tandem.views.source.watermark import later, newest
from tandem.views.view import View

_AT_ONCE: Final = 5_000
_RESTORED_AT_ONCE: Final = 20_000
_OFFSETS: Final = 1_000_000
_ASK_S: Final = 5.0
"""Seconds between two questions to a broker from which nothing comes, whether it answers and has the same topics."""
_RESTART_S: Final = 1.0
"""Seconds in which a broker that runs answers."""
_COMPARE_S: Final = 5.0
"""Seconds between two comparisons with commits: each costs as much as the fold of these commits."""
_SHARE: Final = 2
"""A fold begins at least this many times its CPU time after the one before it began: folds use a part of one core."""
_LEAST_S: Final = 0.01
"""Seconds between the beginnings of two folds, at least, however cheap they are: each costs the server work, too."""
_UNASKED_S: Final = 0.25
"""Seconds between two folds while nobody asks for answers."""
_LATE_S: Final = 0.5
"""Seconds of a fold from which on it comes too late: records that arrive meanwhile wait as long."""
_UNCOVERED_S: Final = 30.0
"""Seconds for which commits may end where the tail does not reach, before it starts again from them."""


class HotTailEnded(TandemError, code="hot-tail-ended"):
    """The hot tail cannot follow the source, or has to start again from where commits end; the sentence says why."""


class RecordsLost(HotTailEnded, code="hot-records-lost"):
    """The log may have lost records that the hot tail counts."""


class OtherRelease(Exception):
    """Another release is live."""


@dataclass
class HotFollower:
    """The hot tail of one source of the live release; `send` passes messages to the server. For one thread.

    `clock` returns monotonic seconds, `cpu` the seconds of CPU time that the thread has used. `asked` is whether somebody asks
    for answers; `sleep` may return early once somebody does. Between the beginnings of two folds are at least `least_s` seconds.

    `away` says why the broker does not answer now, if so, and `unread` why the tables cannot be read. The hot commits stay
    meanwhile: they are still right.
    """

    settings: Settings
    tables: Tables
    connection: kafka.BrokerConnection
    release: Release
    source: Source
    views: Mapping[str, View]
    now: Callable[[], datetime]
    send: Callable[[HotMessage], None]
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    cpu: Callable[[], float] = time.thread_time
    asked: Callable[[], bool] = lambda: True
    least_s: float = 0.0
    status: HotStatus = field(default_factory=HotStatus)
    away: str | None = field(default=None, init=False)
    unread: str | None = field(default=None, init=False)
    tail: HotTail = field(init=False)
    _reader: BulkReader | None = field(default=None, init=False, repr=False)
    _topics: tuple[kafka.Topic, ...] = field(default=(), init=False)
    _ends: dict[Partition, int] = field(default_factory=dict, init=False)
    _waiting: list[pa.Table] = field(default_factory=list, init=False, repr=False)
    _looked: float = field(default=0.0, init=False)
    _broker_asked: float = field(default=0.0, init=False)
    _compared: float = field(default=float("-inf"), init=False)
    _covered: float = field(default=0.0, init=False)
    _fold_began: float = field(default=float("-inf"), init=False)
    _pause_s: float = field(default=0.0, init=False)
    _folding_s: float = field(default=0.0, init=False)
    _closing: ExitStack = field(default_factory=ExitStack, init=False, repr=False)

    def __post_init__(self) -> None:
        self._heavy = HeavyViews(self.clock)
        self._schemas = of_source(self.source, self.settings, self.tables, self.now)
        self._watch()

    def _watch(self) -> None:
        self._live = Publications(self.tables)
        self._commits = Follower(self.tables, self.release.number, self.source.name)

    def begin(self) -> None:
        """Start from where commits end, and load the identities below.

        Raises HotTailEnded, LogMoved, OtherRelease, NoBroker, NoTopic, Unreadable.
        """
        name, fingerprints = self.source.name, {name: self.release.views[name] for name in self.views}
        live, commits, base = self._committed()
        ledger = ArchiveLedger(self.tables, name)
        generations = tuple(names := ledger.topic_names())
        self._topics = without_newcomers(self.source, topics_of(self.connection, self.source), names)
        self._refuse_cut_log(commits)
        if unknown := [topic.name for topic in self._topics if topic.id not in generations]:
            raise RecordsLost(f"the speed layer has not recorded topic '{unknown[0]}' yet")  # it may be created again
        firsts = ledger.firsts()
        task = Task(self.release.files, name, fingerprints, generations=generations, secret=secrets.token_bytes(SECRET_BYTES))
        state = FollowerState(
            self._restored(task, base, firsts),
            end=base,
            firsts=firsts,
            maxima=newest([*(commit.maxima for commit in commits), live.maxima.get(name, {})]),
            watermark=later(*(commit.watermark for commit in commits), live.watermarks.get(name)),
            caught_up=newest_caught_up(commits),
            epoch=secrets.randbits(62),
            by="hot",
        )
        views = {fingerprints[name]: view for name, view in self.views.items()}
        look_ups = tables_of_views(
            self.tables, self.release, self.views, partial(overflow_of_hot_tail, self.settings, self._closing)
        )
        self.tail = HotTail(task, self.source, views, state, self.settings.serving.hot_mb << 20, schemas=self._schemas)
        if look_ups is not None:
            self.tail.look_up = lambda: look_ups.newest(self._committed()[0])
        self._covered = self._broker_asked = self.clock()
        self._publish(HotChange(base))

    def step(self, wait_s: float) -> bool:
        """Fold what is new, after at most `wait_s` seconds; then look at the commits. Returns whether something was folded.

        Under load records wait for the next fold's turn, so a fold has more of them. Raises HotTailEnded, LogMoved, OtherRelease,
        NoTopic.
        """
        if self._heavy.taken_in(self.tail):
            self._publish(HotChange(self.tail.base))
        left = wait_s if self.tail.full or self.away is not None else self._due - self.clock()
        if left > 0:
            self.sleep(min(left, wait_s))
        # If somebody has begun to ask meanwhile, it is due earlier.
        folded = (left <= wait_s or self._due <= self.clock()) and self._read_and_fold(wait_s)
        if self.clock() - self._looked >= self._look_s:
            self._looked = self.clock()
            self._hand_over()
        return folded

    def close(self) -> None:
        """Disconnect from the log."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._closing.close()

    def _read_and_fold(self, wait_s: float) -> bool:
        behind = not (self.tail.full or self.away is not None) and self._read(wait_s)
        began, spent = self.clock(), self.cpu()
        folded = self._fold()
        if not folded and not self.tail.full and self.away is None:
            self._heavy.in_time()
        if folded:
            # Not by the clock: a fold that waits for a core or the broker uses nothing meanwhile, and would wait again for it.
            cost = self.cpu() - spent
            self._heavy.judge(self.tail, seconds=self._folding_s, late=behind or self._folding_s > _LATE_S)
            self._fold_began = float("-inf") if behind else began
            self._pause_s = max(_SHARE * cost, _LEAST_S, self.least_s)
        return folded

    @property
    def _due(self) -> float:
        """When the next fold may begin."""
        return self._fold_began + max(self._pause_s, 0.0 if self.asked() else _UNASKED_S)

    @property
    def _look_s(self) -> float:
        """Seconds between two polls of the commits; more where each request costs money and no hot commit waits for one."""
        return max(LOOK_S if self.tables.local or self.tail.segments else SELDOM_S, self.settings.serving.poll_ms / 1000)

    def _read(self, wait_s: float) -> bool:
        """Read what is there, after at most `wait_s` seconds; returns whether the log may have more."""
        assert self._reader is not None  # since `begin`
        try:
            read = self._reader.read(most=_AT_ONCE, wait_s=wait_s)
        except kafka.NoBroker as error:
            # The client is behind records that it did not return, so another client has to begin where commits end.
            raise HotTailEnded(str(error)) from error
        self._ends |= read.ends
        if read.records.num_rows:
            self._waiting.append(read.records)
        return int(read.records.num_rows) >= _AT_ONCE

    def _fold(self) -> bool:
        end = upper(self.tail.end, Position.of(self._ends))
        new = end != self.tail.end
        if not new and self.away is None and self.clock() - self._broker_asked < _ASK_S:
            return False
        # After the fetch, as before a commit: what was read may be another topic's of the same name.
        if not self._answers() or not new:
            return False
        assert self._reader is not None  # since `begin`
        records, self._waiting = pa.concat_tables(self._waiting or [self._reader.nothing()]), []
        began = self.clock()
        commit = self.tail.extend(records, end, at=self.now())
        self._folding_s = self.clock() - began
        self._publish(HotChange(self.tail.base, commit))
        for merged in self.tail.compact():
            self._publish(HotChange(self.tail.base, merged))
        return True

    def _answers(self) -> bool:
        """Whether the broker answers. Raises HotTailEnded if it has other topics or partitions than at the start, NoTopic."""
        was, self.away = self.away, None
        began = self.clock()
        try:
            now = kafka.topics(self.connection, [topic.name for topic in self._topics])
            if now == self._topics and (was is not None or self.clock() - began > _RESTART_S):
                self._refuse_cut_log(self._committed()[1])  # the broker may have another log since it started again
        except (kafka.NoBroker, Unreadable) as error:
            self.away = str(error)
        else:
            if now != self._topics:
                same = {topic.id for topic in now} == {topic.id for topic in self._topics}
                raise HotTailEnded("a topic has more partitions now") if same else RecordsLost("the topics have changed")
        self._broker_asked = self.clock()
        if (was is None) != (self.away is None):
            self._publish(HotChange(self.tail.base))
        return self.away is None

    def _refuse_cut_log(self, commits: Iterable[Commit]) -> None:
        try:
            refuse_cut_log(self.tables, self.source, present_log(self.connection, self._topics), commits)
        except LogChanged as error:
            raise RecordsLost(str(error)) from error

    def _hand_over(self) -> None:
        self.unread = None
        try:
            _, commits, end = self._committed()
        except Unreadable as error:
            self.unread = str(error)
            self._watch()  # a table that was replaced is opened again
            return
        if not self.tail.covers(end):
            joined = any(topic not in self.tail.task.generations for topic, _ in end)
            if joined or not self.tail.may_cover(end) or self.clock() - self._covered > _UNCOVERED_S:
                raise HotTailEnded(f"commits end at {end}, outside the hot tail [{self.tail.base}, {self.tail.end})")
            return
        self._covered = self.clock()
        if end == self.tail.base:
            return
        before = self.tail.commits
        reached = later(*(commit.watermark for commit in commits))
        covered = self.tail.rebase(end, at=self.now(), watermark=reached, caught_up=newest_caught_up(commits))
        if self.clock() - self._compared >= _COMPARE_S:
            self._compared = self.clock()
            self._compare(covered, commits)
        first = self.tail.commits[:1]
        self._publish(HotChange(end, first[0] if first and first[0] not in before else None))

    def _compare(self, covered: Covered, commits: tuple[Commit, ...]) -> None:
        """Compare with the commits over the same range, if they still begin and end there, and must count the same there."""
        starts, ends = [commit.start for commit in commits], [commit.end for commit in commits]
        if covered.start not in starts or covered.end not in ends:
            return
        passed = commits[starts.index(covered.start) : ends.index(covered.end) + 1]
        if covered.evicted or any(commit.identities_since for commit in passed):
            return
        compared = mismatched = 0
        counts = plus(*(commit.counts for commit in passed))
        for fingerprint in covered.partials:
            view = self.tail.views[fingerprint]
            # Look-ups of either may have known more of the tables.
            if not looked_up(view) and alike(view, covered.counts, counts, partitions=len(covered.end)):
                theirs = [from_ipc(commit.partials[fingerprint]) for commit in passed]
                mismatched += differing(view, states(covered, fingerprint), theirs)
                compared += 1
        self.status = msgspec.structs.replace(
            self.status, compared=self.status.compared + compared, mismatched=self.status.mismatched + mismatched
        )

    def _committed(self) -> tuple[Publication, tuple[Commit, ...], Position]:
        """The live publication, the commits that readers have above its cut, and their end."""
        live = self._live.latest()
        if live is None or live.release != self.release.number:
            raise OtherRelease
        tiled = chain(self._commits.poll(), live.cuts[self.source.name])
        if tiled.problem is not None:
            raise HotTailEnded(tiled.problem)
        return live, tiled.commits, tiled.end

    def _restored(self, task: Task, base: Position, firsts: Offsets) -> DedupWindow:
        """Open the log; the identities counted below the base, within the dedup window."""
        source, places = self.source, [(topic.id, n) for topic in self._topics for n in range(topic.partitions)]
        reach = {place: base.get(place, firsts.get(place, 0)) for place in places}
        starts, window, stretches = dict(reach), unseen(source, self.settings.speed.identities_mb), []
        if window.span:
            known = counted(self.tables, self.release, source.name, base, now=self.now())
            stretches = list(divided(known.within(source.dedup_window), firsts, most=_OFFSETS))
            if (earlier := earlier_topic(stretches, self._topics, firsts)) is not None:
                raise HotTailEnded(
                    f"the dedup window reaches into topic id {earlier}, which no topic of the source has now; only the archive "
                    "has its identities"
                )
            window = begun(source, stretches, known, self.settings.speed.identities_mb)
            if stretches:
                starts = {place: stretches[0].start.get(place, firsts.get(place, 0)) for place in places}
        lows = kafka.starts(self.connection, self._topics)
        for place, low in lows.items():
            if low > reach[place]:
                raise RecordsLost(f"{_gone(place, reach[place], low)}, which commits do not count yet")
            if low > starts[place]:
                raise HotTailEnded(f"{_gone(place, starts[place], low)}, which hold identities")
        self.close()
        self._reader = BulkReader(self.connection.address, self._topics, starts, columns=record_columns(source))
        self._ends, self._waiting, read_at = {}, [], self.clock()
        while any(self._ends.get(place, starts[place]) < to for place, to in reach.items()):
            read = self._reader.read(most=_RESTORED_AT_ONCE, wait_s=0.2)
            if read.ends:
                read_at = self.clock()
            elif self.clock() - read_at > self.connection.address.timeout_s:
                raise kafka.NoBroker(f"Kafka at {self.connection.address.bootstrap} did not return records in time")
            self._ends |= read.ends
            if read.records.num_rows:
                below, above = split(read.records, base)
                self._wait(above)
                events = decode(source if self._schemas is None else self._schemas.ready(source, below), below).events
                if window.span and events.num_rows:
                    found = identities(source, identified(source, events, task.generations, secret=task.secret))
                    window = window.with_identities(values(found), numbered(found, stretches, first=0))
        return window

    def _wait(self, records: pa.Table) -> None:
        """Keep records above the base until all identities below are loaded. Raises HotTailEnded beyond the bound of memory."""
        self._waiting.append(records)
        most = self.settings.serving.hot_mb
        if sum(each.nbytes for each in self._waiting) > most << 20:
            raise HotTailEnded(
                f"more than {most} MB (serving.hot_mb) of records are above the commits while identities are loaded"
            )

    def _publish(self, change: HotChange) -> None:
        why = self._heavy.why
        self.status = msgspec.structs.replace(
            self.status,
            aside=self.away,
            views_aside={name: why[mark] for name, mark in self.tail.task.views.items() if mark in why},
            nbytes=self.tail.nbytes,
            full=self.tail.full,
        )
        self.send(message_of(self.release.number, self.source.name, self.status, change))


def _gone(place: Partition, start: int, low: int) -> str:
    return f"the log no longer has offsets {start} to {low - 1} of partition {place[1]}"
