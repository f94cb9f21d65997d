"""Follow one source's log from where commits end: read, fold, hand over to commits, and compare with them."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import numpy as np
import pyarrow as pa

from infra import kafka
from infra.kafka.bulk_reader import BulkReader
from infra.settings import Settings
from ledger.delta.addresses import Tables
from ledger.log import archive_runs
from ledger.log.positions import Position, upper
from ledger.publish import publications
from ledger.publish.publications import Publication
from ledger.publish.releases import Release
from ledger.realtime.commits import Commit
from ledger.realtime.follower import Follower
from ledger.realtime.hot_chain import Change
from ledger.realtime.hot_messages import Message, State, of_change
from ledger.realtime.tiling import chain
from speed.dedup.dedup_window import DedupWindow
from speed.dedup.identities import identified, identities, values
from speed.dedup.siphash import SECRET_BYTES
from speed.hot.comparison import differing
from speed.hot.hot_tail import Before, Covered, HotTail, states
from speed.micro_batch.task import Task
from speed.source.counted_at import counted, divided
from speed.source.restore_identities import begun, numbered, unseen
from views.arrow.ipc import from_ipc
from views.errors import TandemError
from views.kernel.kernel import decode
from views.source.offset_ranges import Offsets, Partition
from views.source.source import Source, record_columns
from views.source.watermark import later, newest
from views.view import View

_AT_ONCE: Final = 5_000
_RESTORED_AT_ONCE: Final = 20_000
_OFFSETS: Final = 1_000_000
_LOOK_S: Final = 0.05
"""Seconds between two looks at the commits."""
_COMPARE_S: Final = 5.0
"""Seconds between two comparisons with commits: each costs as much as the fold of these commits."""
_UNCOVERED_S: Final = 30.0
"""Seconds for which commits may end where the tail does not reach, before it starts again from them."""


class Aside(TandemError):
    """The hot tail cannot follow the source now; the sentence says why."""


class Restart(Exception):
    """The hot tail has to start again from where commits end; the text says why."""


class OtherRelease(Exception):
    """Another release is live."""


@dataclass
class HotFollow:
    """The hot tail of one source of the live release; `send` passes messages to the server. For one thread."""

    settings: Settings
    tables: Tables
    connection: kafka.Connection
    release: Release
    source: Source
    views: Mapping[str, View]
    now: Callable[[], datetime]
    send: Callable[[Message], None]
    clock: Callable[[], float] = time.monotonic
    state: State = field(default_factory=State)
    tail: HotTail = field(init=False)
    _reader: BulkReader | None = field(default=None, init=False, repr=False)
    _topics: tuple[kafka.Topic, ...] = field(default=(), init=False)
    _ends: dict[Partition, int] = field(default_factory=dict, init=False)
    _waiting: list[pa.Table] = field(default_factory=list, init=False, repr=False)
    _looked: float = field(default=0.0, init=False)
    _compared: float = field(default=float("-inf"), init=False)
    _covered: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._live = publications.watched(self.tables)
        self._commits = Follower(self.tables, self.release.number, self.source.name)

    def begin(self) -> None:
        """Start from where commits end, and load the identities below. Raises Aside, Restart, OtherRelease, NoBroker, NoTopic."""
        name, fingerprints = self.source.name, {name: self.release.views[name] for name in self.views}
        live, commits, base = self._committed()
        self._topics = kafka.topics(self.connection, self.source.topics)
        generations = archive_runs.generations(self.tables, name)
        if unknown := [topic.name for topic in self._topics if topic.id not in generations]:
            raise Aside(f"the speed layer has not recorded topic '{unknown[0]}' yet")
        firsts = archive_runs.firsts(self.tables, name)
        task = Task(self.release.files, name, fingerprints, generations=generations, secret=secrets.token_bytes(SECRET_BYTES))
        window = self._restored(task, base, firsts)
        before = Before(
            window,
            newest([*(commit.maxima for commit in commits), live.maxima.get(name, {})]),
            later(*(commit.watermark for commit in commits), live.watermarks.get(name)),
        )
        views = {fingerprints[name]: view for name, view in self.views.items()}
        most = self.settings.serving.hot_mb << 20
        self.tail = HotTail(task, self.source, views, base, before, firsts, _caught_up(commits), most)
        self._covered = self.clock()
        self._say(Change(base))

    def step(self, wait_s: float) -> bool:
        """Fold what is new, after at most `wait_s` seconds; then look at the commits. Returns whether something was folded.

        Raises Restart, OtherRelease, LogMoved, NoBroker, NoTopic, Unreadable.
        """
        assert self._reader is not None  # since `begin`
        folded = False
        if self.tail.full:
            time.sleep(wait_s)
        else:
            read = self._reader.read(most=_AT_ONCE, wait_s=wait_s)
            self._ends |= read.ends
            if read.records.num_rows:
                self._waiting.append(read.records)
            folded = self._fold()
        if self.clock() - self._looked >= _LOOK_S:
            self._looked = self.clock()
            self._hand_over()
        return folded

    def close(self) -> None:
        """Disconnect from the log."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def aside(self, why: str) -> None:
        """Have the server drop the hot commits, for this reason."""
        self.state = State(why, self.state.compared, self.state.mismatched)
        self.send(of_change(self.release.number, self.source.name, self.state, None))

    def _fold(self) -> bool:
        end = upper(self.tail.end, Position.of(self._ends))
        if end == self.tail.end:
            return False
        # After the fetch, as before a commit: what was read may be another topic's of the same name.
        now = kafka.topics(self.connection, self.source.topics)
        if now != self._topics:
            raise Restart("the topics have changed")
        records, self._waiting = pa.concat_tables(self._waiting or [self._none()]), []
        commit = self.tail.extend(records, end, at=self.now())
        self._say(Change(self.tail.base, commit))
        return True

    def _hand_over(self) -> None:
        _, commits, end = self._committed()
        if not self.tail.covers(end):
            if end.at_or_below(self.tail.base) or self.clock() - self._covered > _UNCOVERED_S:
                raise Restart(f"commits end at {end}, outside the hot tail [{self.tail.base}, {self.tail.end})")
            return
        self._covered = self.clock()
        if end == self.tail.base:
            return
        before = self.tail.commits
        self.tail.caught_up = _caught_up(commits)
        covered = self.tail.rebase(end, at=self.now(), watermark=later(*(commit.watermark for commit in commits)))
        first = self.tail.commits[:1]
        self._say(Change(end, first[0] if first and first[0] not in before else None))
        if self.clock() - self._compared >= _COMPARE_S:
            self._compared = self.clock()
            self._compare(covered, commits)

    def _compare(self, covered: Covered, commits: tuple[Commit, ...]) -> None:
        """Compare with the commits over the same range, if they still begin and end there."""
        starts, ends = [commit.start for commit in commits], [commit.end for commit in commits]
        if covered.start not in starts or covered.end not in ends:
            return
        passed = commits[starts.index(covered.start) : ends.index(covered.end) + 1]
        rows = 0
        for fingerprint, view in self.tail.views.items():
            theirs = [from_ipc(commit.partials[fingerprint]) for commit in passed]
            rows += differing(view, states(covered, fingerprint), theirs)
        compared = self.state.compared + len(self.tail.views)
        self.state = State(None, compared, self.state.mismatched + rows, self.tail.full, self.tail.nbytes)

    def _committed(self) -> tuple[Publication, tuple[Commit, ...], Position]:
        """The live publication, the commits that readers have above its cut, and their end."""
        live = self._live.read()
        if live is None or live.release != self.release.number:
            raise OtherRelease
        tiled = chain(self._commits.poll(), live.cuts[self.source.name])
        if tiled.problem is not None:
            raise Aside(tiled.problem)
        return live, tiled.commits, tiled.end

    def _restored(self, task: Task, base: Position, firsts: Offsets) -> DedupWindow:
        """Open the log; the identities counted below the base, within the dedup window."""
        source, places = self.source, [(topic.id, n) for topic in self._topics for n in range(topic.partitions)]
        reach = {place: base.get(place, firsts.get(place, 0)) for place in places}
        starts, window, stretches = dict(reach), unseen(source, self.settings.speed.identities_mb), []
        if window.span:
            known = counted(self.tables, self.release, source.name, base, now=self.now())
            stretches = list(divided(known.within(source.dedup_window), firsts, most=_OFFSETS))
            window = begun(source, stretches, known, self.settings.speed.identities_mb)
            if stretches:
                starts = {place: stretches[0].start.get(place, firsts.get(place, 0)) for place in places}
        lows = kafka.starts(self.connection, self._topics)
        for place, low in lows.items():
            if low > starts[place]:
                raise Aside(
                    f"the log no longer has offsets {starts[place]} to {low - 1} of partition {place[1]}, which hold identities"
                )
        self.close()
        self._reader = BulkReader(self.connection.address, self._topics, starts, columns=record_columns(source))
        self._ends, self._waiting = {}, []
        heard = self.clock()
        while any(self._ends.get(place, starts[place]) < to for place, to in reach.items()):
            read = self._reader.read(most=_RESTORED_AT_ONCE, wait_s=0.2)
            if read.ends:
                heard = self.clock()
            elif self.clock() - heard > self.connection.address.timeout_s:
                raise kafka.NoBroker(f"Kafka at {self.connection.address.bootstrap} did not return records in time")
            self._ends |= read.ends
            if read.records.num_rows:
                below = _below(read.records, reach)
                self._waiting.append(read.records.filter(pa.array(~below)))
                events = decode(source, read.records.filter(pa.array(below))).events
                if window.span and events.num_rows:
                    found = identities(source, identified(source, events, task.generations, secret=task.secret))
                    window = window.with_identities(values(found), numbered(found, stretches, first=0))
        return window

    def _none(self) -> pa.Table:
        return self._reader.nothing() if self._reader is not None else pa.table({})

    def _say(self, change: Change) -> None:
        self.state = State(None, self.state.compared, self.state.mismatched, self.tail.full, self.tail.nbytes)
        self.send(of_change(self.release.number, self.source.name, self.state, change))


def _caught_up(commits: tuple[Commit, ...]) -> datetime | None:
    return next((commit.caught_up for commit in reversed(commits) if commit.caught_up), None)


def _below(records: pa.Table, reach: Offsets) -> np.typing.NDArray[np.bool_]:
    places = zip(records["topic_id"].to_pylist(), records["partition"].to_pylist(), strict=True)
    bounds = np.array([reach[place] for place in places], np.int64)
    below: np.typing.NDArray[np.bool_] = records["offset"].to_numpy() < bounds
    return below
