"""A log that loses records between commands, the commands, and plain Python's memory of the log's records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

import tandem.serving.status.sources
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.cli.doctor import state as doctor
from tandem.ledger.cut_decision import OutOfReach
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.gaps import Gap, GapNotAccepted, Gaps
from tandem.ledger.log.positions import Position, upper
from tandem.ledger.log.retention import UntilLoss
from tandem.ledger.publish.publications import Publications
from tandem.serving.read.snapshot import Snapshot, provenance_of
from tandem.serving.read.snapshot_follower import SnapshotFollower
from tandem.serving.status.sources import gap_document
from tandem.speed.source.start_position import OffsetsLost
from tandem.views.source.offset_ranges import Partition
from tests.simulation import moving, programs
from tests.simulation.numbers import MINUTES, SOURCE, TOPIC, Event, Log, decode, least_by_fingerprint, states, united
from tests.simulation.world import BROKER, Present, World, found_in, of_parts, settings, stored

Place = tuple[Partition, int]
"""A partition and an offset in it."""

_TELLING: dict[str, Any] = {
    "configurations": lambda *_: {SOURCE: {"cleanup.policy": "compact"}},
    "records": lambda *_, **__: {},
    "NoBroker": LogChanged,
    "NoTopic": LogChanged,
}
"""What `status` asks a broker beside offsets: how long what is left is safe is another test's matter."""


@dataclass
class Losses:
    """An installation and its log. `ever` is the oracle: each event that was counted, or that the log had since the first look.

    `begins` are the offsets from which on partitions were looked at, where they are not 0; None in an installation to which an
    archive has moved.
    """

    world: World = field(default_factory=lambda: World(log=Log()))
    ever: dict[Place, Event] = field(default_factory=dict)
    begins: dict[Partition, int] | None = field(default_factory=dict)
    looked: bool = False
    topics: int = 1

    def __post_init__(self) -> None:
        Present.enter(self.world)

    # What happens to the log.

    def produce(self, partition: int, kinds: Sequence[bool]) -> None:
        """Records, and offsets that hold none: markers of transactions and what these aborted."""
        log, number = self.world.log, self._number(partition)
        for real in kinds:
            offset = len(log.partitions[number])
            identity, appended = self.world.number(), int(self.world.now().timestamp() * 1_000_000)
            event = Event(offset % MINUTES, 1 + identity, appended, identity)
            log.partitions[number].append(event if real else None)
            if real and self.looked:
                self.ever[(log.topic, number), offset] = event

    def add_partition(self) -> None:
        self.world.log.partitions.append([])

    def retain(self, partition: int, tenths: int) -> None:
        """Retention takes some tenths of what the partition has."""
        log, number = self.world.log, self._number(partition)
        start, end = log.starts.get(number, 0), len(log.partitions[number])
        log.starts[number] = start + (end - start) * tenths // 10

    def compact(self, partition: int) -> None:
        """Every other record goes, of those that nobody has counted or archived: newer ones have replaced them."""
        log, number = self.world.log, self._number(partition)
        place = (log.topic, number)
        for offset in range(max(self._reached(place), log.starts.get(number, 0)), len(log.partitions[number]), 2):
            log.partitions[number][offset] = None
            self.ever.pop((place, offset), None)

    def make_anew(self, partitions: int) -> None:
        """The topic is deleted and made anew: of the former one nobody can tell what was neither counted nor archived."""
        former = self.world.log.topic
        self.ever = {at: event for at, event in self.ever.items() if at[0][0] != former or at[1] < self._reached(at[0])}
        self.topics += 1
        self.world.log = Log([[] for _ in range(partitions)], topic=f"{TOPIC}{self.topics}")

    # The commands. Each is done, or ends with an error that says how to go on.

    def archive(self, *, new_topic: bool) -> None:
        self._look()
        tables = self.world.tables
        ledger = ArchiveLedger(tables, SOURCE)
        reached = upper(ledger.archived(), *(one.end for one in programs.commits(self.world)))
        if reached and not new_topic and self.world.log.topic not in ledger.topic_names():
            with pytest.raises(LogChanged, match="`tandem archive --new-topic` continues with this topic"):
                programs.archive(self.world)
        else:
            programs.archive(self.world, new_topic=new_topic)

    def recompute(self, *, accept: bool) -> None:
        names = tuple(gap.name for gap in self.gaps) if accept else ()
        self._do(lambda: programs.recompute(self.world, RecomputeRequest(accepted=names)), GapNotAccepted, OutOfReach)

    def follow(self, tenths: Sequence[int], *, loses: int) -> None:
        """A speed layer, for micro-batches of so many tenths of what is new; some are lost between fetch and commit."""
        self._look()
        ends = [lambda start, part=part: self._ahead(start, part) for part in tenths]
        self._do(lambda: programs.follow(self.world, ends, meanwhile=lambda: self.retain(loses, loses)), OffsetsLost)

    def move(self) -> None:
        """Go on in another installation at the same broker, with what this one exported."""
        moved = moving.export(self.world)
        if moved is None:
            return
        self.world = World(log=self.world.log, numbers=self.world.numbers)
        Present.enter(self.world)
        moving.take(self.world, moved)
        ends = {partition: intervals[-1][1] for partition, intervals in moved.exported.ranges.intervals}
        ahead = {at for at in self.ever if at[0][0] == self.world.log.topic and at[1] >= ends.get(at[0], at[1] + 1)}
        self.ever = {at: event for at, event in self.ever.items() if at in ahead} | self.filed
        self.looked, self.begins = False, None

    # What there is.

    @property
    def gaps(self) -> list[Gap]:
        return Gaps(self.world.tables).of(SOURCE)

    @property
    def missing(self) -> set[Place]:
        """The offsets of all named gaps."""
        return {
            (partition, offset)
            for gap in self.gaps
            for partition, intervals in gap.ranges.intervals
            for interval in intervals
            for offset in range(*interval)
        }

    @property
    def filed(self) -> dict[Place, Event]:
        """What the archive has."""
        found = (found_in(row) for row in stored(self.world.tables.archive(SOURCE)))
        return {(partition, offset): event for partition, offset, event in found}

    @property
    def held(self) -> set[Place]:
        """The offsets that the log still has."""
        log = self.world.log
        return {
            ((log.topic, number), offset)
            for number, records in enumerate(log.partitions)
            for offset in range(log.starts.get(number, 0), len(records))
        }

    def told(self) -> UntilLoss:
        """What `status`, `doctor` and the server tell of losses that no gap names yet."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tandem.serving.status.sources, "kafka", SimpleNamespace(**vars(BROKER), **_TELLING))
            patch.setattr(tandem.serving.status.sources, "broker", SimpleNamespace(address=lambda _: None))
            chosen = settings(self.world)
            chosen.kafka = SimpleNamespace(warn_hours=1)
            source = self.world.working_tree().sources[SOURCE]
            return tandem.serving.status.sources.unarchived(chosen, self.world.tables, [source], now=self.world.now())[SOURCE]

    def snapshot(self) -> Snapshot:
        found = SnapshotFollower(self.world.tables).refresh()
        assert isinstance(found, Snapshot), found
        return found

    def ways_on(self) -> dict[str, list[str]]:
        """What each place tells of gaps that are not accepted."""
        found, live = self.snapshot(), Publications(self.world.tables).latest()
        assert live is not None
        whence = provenance_of(found, self.world.working_tree().views["every"], "merged", {})
        checks: Any = doctor._gaps(SimpleNamespace(tables=self.world.tables))  # type: ignore[arg-type]
        shown = [gap_document(gap, accepted=accepted) for gap, accepted in found.gaps_of(SOURCE).items()]
        return {
            "status": [one["warning"] for one in shown if one["warning"]],
            "doctor": [f"{one.what}; {one.fix}" for one in checks if one.outcome != "ok"],
            "answers": [gap.way_on for gap in whence.gaps if gap.name not in whence.accepted],
        }

    # The law.

    def judge(self) -> None:
        """Whatever was done so far: no gap names what is there, and what no place has is told."""
        missing, filed, held = self.missing, self.filed, self.held
        assert not missing & filed.keys(), "a gap names what the archive has"
        assert not missing & held, "a gap names what the log still has"
        begins = self.begins
        if begins is not None:
            assert all(offset >= begins.get(place, 0) for place, offset in missing), "a gap names what nobody can have lost"
        lost = {at for at in self.ever if at not in missing and at not in filed and at not in held}
        if self.looked and lost:
            told = self.told()
            assert told.lost >= len(lost), f"{sorted(lost)} are lost, and {told} is told"
            assert "`tandem archive` records them as a gap" in (told.warning or "")

    def settle(self) -> None:
        """Archive, follow, accept: then all that ever was is in the archive or in a gap, and answers are the archive's."""
        self.archive(new_topic=True)
        self.judge()
        assert self.ever.keys() <= self.filed.keys() | self.missing, "something is lost without a name"
        assert self.told().lost == 0, self.told()
        programs.follow(self.world, [lambda start: self._ahead(start, 10)], meanwhile=lambda: None)
        programs.archive(self.world)
        live = Publications(self.world.tables).latest()
        assert live is not None
        open_ = [gap for gap in self.gaps if gap.name not in live.gaps]
        for where, ways in self.ways_on().items():
            assert len(ways) == len(open_), (where, ways, open_)
            for gap, way in zip(open_, ways, strict=True):
                assert f"{gap.ranges.length} offsets" in way, (where, way)
                assert f"`tandem recompute --accept-gap {gap.name}`" in way, (where, way)
        if open_:
            with pytest.raises(GapNotAccepted, match=f"--accept-gap {open_[0].name}`"):
                programs.recompute(self.world, RecomputeRequest())
        programs.recompute(self.world, RecomputeRequest(accepted=tuple(gap.name for gap in open_)))
        assert self.ways_on() == {"status": [], "doctor": [], "answers": []}
        self._judge_answers()
        programs.recompute(self.world, RecomputeRequest(mode="full"))
        self._judge_answers()

    def _judge_answers(self) -> None:
        """Answers of both layers, and of the batch alone, are what the archive holds: all that ever was but what gaps name."""
        found, filed = self.snapshot(), self.filed
        expected = {at: event for at, event in self.ever.items() if at not in self.missing}
        assert expected.items() <= filed.items()
        tail, tables = found.tails[SOURCE], self.world.tables
        assert tail.problem is None
        assert self.world.log.end.at_or_below(tail.end)
        for name, view in found.publication.views.items():
            below = of_parts(tables, view.address(tables, name), view.parts)
            merged = united([below, *(decode(commit.partials[view.fingerprint]) for commit in tail.commits)])
            assert merged == states(filed.values(), least_by_fingerprint()[view.fingerprint]), name
            assert merged == below

    def _do(self, command: Callable[[], object], *may: type[Exception]) -> None:
        """Do it, or be told why not and how to go on; of a log that changes while it is read the layer begins anew by itself."""
        told = None
        try:
            command()
        except LogChanged as error:
            self.world.say(str(error))
        except may as error:
            told = str(error)
            self.world.say(told)
        assert told is None or "`tandem archive`" in told or "`tandem recompute --accept-gap " in told, told

    def _look(self) -> None:
        """Whatever the log has at the first look of all is known from then on."""
        log = self.world.log
        if not self.looked:
            self.ever |= {at: event for at in self.held if (event := log.partitions[at[0][1]][at[1]]) is not None}
            if self.begins is not None:
                self.begins = {(log.topic, number): start for number, start in log.starts.items()}
        self.looked = True

    def _ahead(self, start: Position, tenths: int) -> Position:
        """So many tenths of what the log has beyond a position."""
        log, ahead = self.world.log, {}
        for place in log.places:
            begin, end = max(start.get(place, 0), log.starts.get(place[1], 0)), len(log.partitions[place[1]])
            ahead[place] = begin + max(0, end - begin) * tenths // 10
        return Position.of(ahead)

    def _reached(self, place: Partition) -> int:
        """How far somebody has counted or archived a partition."""
        return max(
            [at[1] + 1 for at in self.filed if at[0] == place]
            + [commit.end.get(place, 0) for commit in programs.commits(self.world)]
            + [0]
        )

    def _number(self, partition: int) -> int:
        return partition % len(self.world.log.partitions)
