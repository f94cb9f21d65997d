"""A micro-batch is committed only while the log is still the planned one."""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tandem.infra.kafka import Topic
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import adoption
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime_writer import Writer
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.log_tail import UncommittedLog
from tandem.speed.source import record_frames
from tandem.speed.source.query import Query
from tandem.speed.source.start_position import KafkaLog as Asked
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import Ranges
from tests.simulation import programs
from tests.simulation.numbers import SOURCE, TOPIC, Event, Found, Log
from tests.simulation.world import Present, World, surroundings

BEFORE, PLANNED = 2, 5


def _events(world: World, count: int) -> list[Event | None]:
    appended = int(world.now().timestamp() * 1_000_000)
    return [Event(0, 1, appended, world.number()) for _ in range(count)]


def nothing(world: World) -> None:
    """The log stays."""


def grows(world: World) -> None:
    world.log.partitions[0] += _events(world, 1)


def loses_what_is_counted(world: World) -> None:
    world.log.starts[0] = BEFORE


def loses_what_is_planned(world: World) -> None:
    world.log.starts[0] = BEFORE + 1


def loses_all(world: World) -> None:
    world.log.starts[0] = len(world.log.partitions[0])


def is_made_anew(world: World) -> None:
    """With more records than were planned, of another topic under the same name."""
    world.log = Log([_events(world, PLANNED + 1), []], topic=f"{TOPIC}2")


@dataclass(frozen=True)
class Fetched:
    """Records as Spark fetches them by a topic's name, whose id it does not know; the log changes before or after that."""

    world: World
    topic: str
    before: Callable[[World], None]
    after: Callable[[World], None]

    def within(self, covered: Ranges) -> Iterable[Found]:
        self.before(self.world)
        log = Log(self.world.log.partitions, topic=self.topic)
        found = list(log.within(covered))
        self.after(self.world)
        return found


def _trigger(folder: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[World], None], *, late: bool) -> UncommittedLog:
    """Run a micro-batch up to offset `PLANNED`, with `BEFORE` counted; the log changes before the fetch or, if `late`, after it.

    Returns the tail that it extends.
    """
    before, after = (nothing, change) if late else (change, nothing)
    world = World(log=Log([[], []]))
    Present.enter(world)
    adoption.live(world.tables, world.working_tree, by="speed", at=world.now())
    state = Publications(world.tables).latest()
    assert state is not None
    release = Releases(world.tables).load(1)
    definitions = load_files(release.files)
    writer = Writer.claim(world.tables, 1, SOURCE, by="speed", at=world.now())
    views = {release.views[name]: view for name, view in definitions.views.items()}
    known = FollowerState(DedupWindow(0), epoch=writer.epoch, by="speed")
    tail = UncommittedLog(programs._Task(), definitions.sources[SOURCE], views, writer, state, world.now, known)  # type: ignore[arg-type]
    asked = Asked(None, (Topic(SOURCE, TOPIC, 2),))
    counted: list[Position] = []
    one = Query("q", tail, tail.source, asked, folder, counted.append)
    monkeypatch.setattr(record_frames, "of_kafka", lambda fetched, *_: fetched)
    world.log.partitions[0] = _events(world, BEFORE)
    _plan(folder, 0, BEFORE)
    one.trigger(Fetched(world, TOPIC, nothing, nothing), 0)  # type: ignore[arg-type]
    assert writer.end == Position.of({(TOPIC, 0): BEFORE, (TOPIC, 1): 0})
    world.log.partitions[0] += _events(world, PLANNED - BEFORE)
    _plan(folder, 1, PLANNED)
    assert counted == [Position.of({(TOPIC, 0): 0, (TOPIC, 1): 0})], "where the first micro-batch starts"
    one.trigger(Fetched(world, TOPIC, before, after), 1)  # type: ignore[arg-type]
    assert counted[1:] == [Position.of({(TOPIC, 0): BEFORE, (TOPIC, 1): 0})]
    return tail


def _plan(folder: Path, batch: int, end: int) -> None:
    """In place of Spark, which notes what it planned before it fetches."""
    (folder / "offsets").mkdir(exist_ok=True)
    (folder / "offsets" / str(batch)).write_text("v1\n{}\n" + json.dumps({SOURCE: {"0": end, "1": 0}}))


@pytest.mark.parametrize("change", [nothing, grows, loses_what_is_counted])
@pytest.mark.parametrize("late", [False, True])
def test_a_planned_range_is_committed_while_the_log_has_it(
    change: Callable[[World], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    with surroundings():
        tail = _trigger(tmp_path, monkeypatch, change, late=late)
        assert tail.writer.end == Position.of({(TOPIC, 0): PLANNED, (TOPIC, 1): 0})
        counted = [one for one in programs.commits(Present.world) if not one.mark]
        assert all(one.caught_up is not None and one.at is not None and one.caught_up < one.at for one in counted)
        newly = counted[-1].caught_up != counted[0].caught_up
        assert newly == (change is not grows), "until when all that the log has received is counted"


@pytest.mark.parametrize("change", [loses_what_is_planned, loses_all, is_made_anew])
@pytest.mark.parametrize("late", [False, True])
def test_nothing_is_committed_of_a_log_that_changed_meanwhile(
    change: Callable[[World], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, late: bool
) -> None:
    with surroundings():
        with pytest.raises(LogChanged):
            _trigger(tmp_path, monkeypatch, change, late=late)
        commits = programs.commits(Present.world)
        assert [sum(one.end.values()) for one in commits if not one.mark] == [BEFORE], "the first micro-batch alone"
