"""A server with hot tails beside batch and speed: at any I/O call the process that folds them may stand still, or end.

The process, its tail and the server's follower are the real ones. Records are numbers, which the simulation folds.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import tandem.speed.hot.follow
import tandem.speed.hot.hot_tail
from tandem.infra import kafka
from tandem.infra.kafka.bulk_reader import LogMoved, ReadRecords
from tandem.infra.settings import ServingSettings, SpeedSettings
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.hot.messages import HotStatus, aside
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import releases
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import HOLD_S, UNPUBLISHED, SnapshotFollower
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.hot.follow import HotFollower, OtherRelease, RecordsLost
from tandem.speed.micro_batch.fold import MicroBatchResult
from tandem.speed.source import restore_identities
from tandem.views.errors import TandemError
from tandem.views.project import project
from tandem.views.source.offset_ranges import Offsets, Partition, Ranges
from tests.simulation import numbers, programs
from tests.simulation.draws import roll
from tests.simulation.numbers import SOURCE, Event, Found, States, decode, united
from tests.simulation.programs import Reader
from tests.simulation.simulation import Simulation
from tests.simulation.world import BROKER, fold_records, merge_partials, settings, sleep, surroundings, world

_VALUES = ("minute", "value", "appended", "id")
RECORDS = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        *((name, pa.int64()) for name in _VALUES),
    ]
)
_IDENTITIES = ["_topic_id", "_partition", "_offset", *_VALUES]


@dataclass
class Fetching:
    """For a BulkReader: what the log has under the name of the topic, whichever topic that is by now."""

    topics: Sequence[kafka.Topic]
    at: dict[Partition, int]

    def read(self, *, most: int, wait_s: float) -> ReadRecords:
        """Up to `most` records of each partition."""
        world().looks("fetch from the log")
        log, rows, ends = world().log, list[dict[str, Any]](), dict[Partition, int]()
        for place, start in self.at.items():
            records = log.partitions[place[1]] if place[1] < len(log.partitions) else []
            if not log.starts.get(place[1], 0) <= start <= len(records):
                raise LogMoved(f"offset {start} of partition {place[1]} is out of range")
            for offset, event in enumerate(records[start : start + most], start):
                ends[place] = offset + 1
                if event is not None:
                    rows.append({"topic_id": place[0], "partition": place[1], "offset": offset, **vars(event)})
        self.at |= ends
        return ReadRecords(pa.Table.from_pylist(rows, RECORDS), ends)

    def nothing(self) -> pa.Table:
        """No records."""
        return RECORDS.empty_table()

    def close(self) -> None:
        """Nothing is open."""


def _events(table: pa.Table) -> list[Found]:
    return [
        (
            (row["topic_id"], row["partition"]),
            row["offset"],
            Event(*(row[name] for name in ("minute", "value", "appended", "id"))),
        )
        for row in table.to_pylist()
    ]


def _fold(
    run: Any, task: object, views: Mapping[str, object], covered: Ranges, window: DedupWindow, **_: object
) -> MicroBatchResult:
    found = [event for table in run(task) for event in _events(table)]
    records: Any = SimpleNamespace(within=lambda _: found)
    return fold_records(records, task, views, covered, window)


def _numbered(found: pa.Table, stretches: Any, *, first: int) -> Any:
    return restore_identities.numbered(found.rename_columns(_IDENTITIES), stretches, first=first)


def _message(release: int, source: str, status: HotStatus, change: object, *, lost: bool = False) -> Any:
    return SimpleNamespace(release=release, source=source, status=status, change=change, lost=lost)


@contextmanager
def hot_surroundings() -> Iterator[None]:
    """The process of hot tails reads and folds the simulation's log."""
    broker = SimpleNamespace(**vars(BROKER), NoBroker=kafka.NoBroker, NoTopic=kafka.NoTopic)

    def reader(_: object, topics: Sequence[kafka.Topic], starts: Offsets, *, columns: object) -> Fetching:
        return Fetching(topics, dict(starts))

    with surroundings(), pytest.MonkeyPatch.context() as patch:
        for module in (tandem.speed.hot.follow, tandem.speed.hot.hot_tail):
            patch.setattr(module, "from_ipc", decode)
        patch.setattr(tandem.speed.hot.hot_tail, "fold_shares", _fold)
        patch.setattr(tandem.speed.hot.hot_tail, "share_of", lambda _, records: records)
        patch.setattr(tandem.speed.hot.hot_tail, "merging", lambda _: merge_partials)
        patch.setattr(tandem.speed.hot.follow, "kafka", broker)
        patch.setattr(tandem.speed.hot.follow, "refuse_cut_log", lambda *_: None)
        patch.setattr(tandem.speed.hot.follow, "BulkReader", reader)
        patch.setattr(tandem.speed.hot.follow, "_OFFSETS", 3)
        patch.setattr(tandem.speed.hot.follow, "decode", lambda _, records: SimpleNamespace(events=records))
        patch.setattr(tandem.speed.hot.follow, "identified", lambda _, events, *__, **___: events)
        patch.setattr(tandem.speed.hot.follow, "identities", lambda _, found: found)
        patch.setattr(
            tandem.speed.hot.follow, "values", lambda found: numbers.identities([event for _, _, event in _events(found)])
        )
        patch.setattr(tandem.speed.hot.follow, "numbered", _numbered)
        patch.setattr(tandem.speed.hot.follow, "message_of", _message)
        patch.setattr(tandem.speed.hot.follow, "differing", lambda _, one, other: int(united(one) != united(other)))
        yield


@dataclass
class Dice:
    """For HeavyViews: views stand aside and come back at random."""

    roll: Random
    why: dict[str, str] = field(default_factory=dict)

    def judge(self, tail: Any, **_: object) -> None:
        """Leave out other views, now and then."""
        if self.roll.random() < 0.3:
            tail.left_out = frozenset(each for each in sorted(tail.views) if self.roll.random() < 0.4)

    def in_time(self) -> None:
        """Dice have no time."""

    def taken_in(self, _: object) -> bool:
        """Nothing comes back before the next fold."""
        return False


@dataclass(eq=False)
class HotServer(Reader):
    """A reader that counts hot commits, and the process that sends them."""

    feed: HotFeed = field(init=False)
    views: dict[tuple[int, str], Position] = field(default_factory=dict)
    later: float = 0.0
    judged: tuple[float, int] = (0.0, 0)
    runs: bool = False
    looks: bool = False
    newest: Snapshot | None = None
    hot_answers: int = 0

    def __post_init__(self) -> None:
        self.feed = HotFeed(self.clock)
        self.following = SnapshotFollower(self.world.tables, self.feed)

    def clock(self) -> float:
        """Seconds; what is held is given up as time goes by."""
        return self.world.time.timestamp() + self.later

    def process(self, roll: Random, steps: int, grow: Callable[[], object]) -> None:
        """Run one process of hot tails for a number of steps. It then stands still until another process takes its place.

        `grow` may append to the log before each step.
        """
        if self.runs:
            return
        self.feed.disconnect("the process of hot tails has ended")
        self.runs, status, one = True, HotStatus(), None
        try:
            live = Publications(self.world.tables).latest()
            if live is None:
                return
            release = Releases(self.world.tables).load(live.release)
            definitions = project.load_files(release.files)
            one = self._follower(release, definitions)
            one.__dict__["_heavy"] = Dice(roll)
            one.begin()
            for _ in range(steps):
                grow()
                one.step(0.0)
                self.world.say(f"the hot tail counts up to {one.tail.end}")
                self.look()
                sleep(0)
        except OtherRelease:
            self.world.say("another release is live")
        except (LogMoved, TandemError) as error:
            self.world.say(f"the hot tail stands aside: {error}")
            lost = isinstance(error, RecordsLost | LogMoved | kafka.NoTopic)
            if live is not None:
                self.feed.apply(_message(live.release, SOURCE, aside(status, str(error)), None, lost=lost))
        finally:
            self.runs = False
        assert one is None or not one.status.mismatched, "commits differ from the hot commits whose place they took"

    def _follower(self, release: releases.Release, definitions: project.Project) -> HotFollower:
        seconds, chosen = iter(range(1_000_000)), settings(self.world)
        chosen.speed, chosen.serving = SpeedSettings(), ServingSettings()
        connection: Any = SimpleNamespace(address=kafka.Address("simulated", {}, 5))
        send: Any = self.feed.apply
        views = {name: view for name, view in definitions.views.items() if view.source.name == SOURCE}
        return HotFollower(
            chosen,
            self.world.tables,
            connection,
            release,
            definitions.sources[SOURCE],
            views,
            self.world.now,
            send,
            clock=lambda: float(next(seconds)),
            sleep=lambda _: None,
            cpu=lambda: float(next(seconds)),
        )

    def look(self) -> Snapshot | None:
        """Answers with new hot commits, then those after a poll; of one caller at a time."""
        if self.looks:
            self.failure = UNPUBLISHED  # as far as this caller sees
            return self.newest
        self.looks = True
        try:
            self.newest = self._look()
        finally:
            self.looks = False
        return self.newest

    def _look(self) -> Snapshot | None:
        """What is held and cannot be read any more is given up."""
        found = self.following.refresh_hot()
        if found is not None:
            with suppress(Unreadable):
                self._judge(found)
        found = super().look()
        if found is None:
            self.later += 2 * HOLD_S
            return super().look()
        return found

    def _judge(self, found: Snapshot) -> None:
        live, tail, now = found.publication, found.tails[SOURCE], (self.clock(), self.feed.losses)
        if now[1] != self.judged[1] or now[0] - self.judged[0] >= HOLD_S / 2:  # what was held may have been given up since
            self.position, self.views = LOG_START, {}
        assert self.position.at_or_below(tail.end), f"a server at {self.position} steps back to {tail.end}"
        fingerprints = {view.fingerprint for view in live.views.values()}
        for commit in tail.commits:
            assert set(commit.partials) == fingerprints, f"release {live.release} is read with a commit of another"
        for name, view in live.views.items():
            own, place = tail.of(view.fingerprint), (live.release, view.fingerprint)
            before = self.views.get(place, LOG_START)
            assert before.at_or_below(own.end), f"answers of {name} at {before} step back to {own.end}"
            self._answer(found, name, own)
            self.views[place] = own.end
        self.position, self.judged = tail.end, now
        self.hot_answers += bool(tail.hot)
        self.world.say(f"publication {live.number} of release {live.release} answers at {tail.end}, hot from {tail.committed}")

    def _answer(self, found: Snapshot, view: str, tail: RealtimeTail) -> None:
        live = found.publication
        fingerprint = live.views[view].fingerprint
        realtime: States = united(decode(commit.partials[fingerprint]) for commit in tail.every)
        below = programs.batch_states(self.world, live, view)
        programs.equal(self.world, view, live, united([below, realtime]), tail.end, cut=live.cut(SOURCE))


class HotSimulation(Simulation):
    """A schedule with a server that has hot tails."""

    LEASED = 0.0
    LOSSY = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        self.server = HotServer(self.world)
        self._readers = [self.server, Reader(self.world)]

    def _hot(self) -> None:
        own = roll(self.seed, self._step_now, 2)
        steps = own.randint(1, 12)

        def grow() -> None:
            if own.random() < 0.5:
                before, self.roll = self.roll, own
                self._produce()
                self.roll = before

        self._start("hot", lambda: self.server.process(own, steps, grow))

    _CHOICES = (_hot, *Simulation._CHOICES)
    _WEIGHTS = (7, 4, 6, 3, 4, 1, 10, 0.5, 1.5, 3, 2, 0.3)
