"""A target that follows the hot tail has at each step the rows of the log at its token, and never older ones after that."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.log.positions import LOG_START, Position, must_await
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.memory.differences import identity
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.memory.store import Store
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.snapshot_follower import HOLD_S
from tandem.serving.sinks import changes_to_send
from tandem.serving.sinks.changes_to_send import SinkStep, token_of_target
from tandem.serving.sinks.delta import DeltaTarget, open_at
from tandem.serving.sinks.log_messages import without_label
from tandem.views.arrow.arrays import from_ipc
from tandem.views.kernel.kernel import arrange, present_arranged
from tandem.views.kernel.rows import ordered
from tests.samples import just
from tests.serving.memory.test_answers_of_hot_commits import Clock, Hot, stands
from tests.serving.memory.test_memory_equals_the_reader import MORE, adopt, some
from tests.serving.sinks.past import EVERYTHING
from tests.serving.world import World, hit, nine_hits, position

Rows = list[str]


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, "what was waited for did not come"
        time.sleep(0.002)


@dataclass
class Log:
    """The steps of a target over all processes of its sink: the position of each token, and the rows in the target."""

    world: World
    view: str
    folder: Path
    positions: list[Position] = field(default_factory=list)
    rows: list[Rows] = field(default_factory=list)
    steps: list[SinkStep] = field(default_factory=list)

    def target(self) -> DeltaTarget:
        return open_at("sink", str(self.folder), self.world.tables)

    def record(self, target: DeltaTarget, step: SinkStep) -> None:
        """What any reader finds in the target after a step."""
        written = token_of_target(target)
        assert written == step.token
        self.rows.append(self.content())
        self.steps.append(step)
        self.positions.append(ChangesToken.parse(step.token).position)

    def content(self) -> Rows:
        schema = self.expected_table(LOG_START).schema
        view = self.world.project.views[self.view]
        content = self.target().content(schema, identity(MemoryLayout(view, 1)))
        assert content is not None
        return sorted(map(str, content.select(schema.names).to_pylist()))

    def expected_table(self, end: Position) -> Any:
        """The view's rows of the log below a position, by the kernel alone."""
        view = self.world.project.views[self.view]
        folded = self.world.fold(LOG_START, end).partials[self.world.live.views[self.view].fingerprint]
        rows = ordered(view, present_arranged(view, arrange(view, from_ipc(folded))))
        return self.target().convert(without_label(rows))

    def expected(self, end: Position) -> Rows:
        return sorted(map(str, self.expected_table(end).to_pylist()))

    def check(self) -> None:
        """Each step has the rows at its token, and none has older ones than the step before."""
        for end, rows in zip(self.positions, self.rows, strict=True):
            assert rows == self.expected(end)
        for before, after in pairwise(self.positions):
            assert before.at_or_below(after), "the target steps back"


@dataclass
class SinkThread:
    """A sink over a connection with hot commits, in a thread of its own, as in its process."""

    log: Log
    feed: HotFeed
    errors: list[BaseException] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.connection = Connection(Store(self.log.world.tables, 1, hot=self.feed))
        self.connection.refresh()
        self.thread = Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        target = self.log.target()
        try:
            for step in changes_to_send.follow(self.connection.view(self.log.view), target, EVERYTHING):
                self.log.record(target, step)
        except ReadFailed as error:
            if not self.connection.store._closed:
                self.errors.append(error)
        except BaseException as error:  # noqa: BLE001 - for the test to look at
            self.errors.append(error)

    def catch_up(self) -> None:
        """Take in what is new; the target gets it, unless answers have stepped back."""
        self.connection.store.refresh_hot()
        self.connection.refresh()
        end = stands(self.connection, self.log.world.project.views[self.log.view])
        if not self.log.positions or not must_await(self.log.positions[-1], end):
            wait_for(lambda: bool(self.errors) or (bool(self.log.rows) and self.log.rows[-1] == self.log.expected(end)))
        assert not self.errors, self.errors

    def close(self) -> None:
        self.connection.close()
        self.thread.join(20)
        assert not self.thread.is_alive()


@contextmanager
def following(log: Log, feed: HotFeed) -> Iterator[SinkThread]:
    with closing(SinkThread(log, feed)) as sink:
        yield sink


events = st.one_of(
    st.tuples(st.just("hot"), st.integers(0, 1), some),
    st.tuples(st.just("hot"), st.integers(0, 1), some),
    st.tuples(st.just("merge"), st.integers(0, 2)),
    st.tuples(st.just("commit"), st.integers(0, 2)),
    st.tuples(st.just("hand over"), st.just(0)),
    st.tuples(st.just("recompute"), st.just(0)),
    st.tuples(st.just("promote"), st.just(0)),
    st.tuples(st.just("compact"), st.just(0)),
    st.tuples(st.just("hot tail killed"), st.just(0)),
    st.tuples(st.just("sink killed"), st.just(0)),
    st.tuples(st.just("hold is over"), st.just(0)),
)


@just(24, quick=3)
@given(st.lists(events, min_size=4, max_size=10), st.sampled_from(["per_page", "visits", "pairs"]))
def test_each_step_of_a_target_has_the_rows_at_its_token(events: Sequence[tuple[Any, ...]], view: str) -> None:
    with TemporaryDirectory() as folder:
        world, clock = World(Path(folder), definitions=MORE), Clock()
        world.append(0, hit("/a", 1))
        world.trigger()
        log, feed = Log(world, view, Path(folder) / "target"), HotFeed(clock)
        hot, sink = Hot(world, feed), SinkThread(log, feed)
        try:
            for event in events:
                match event:
                    case ("hot", int(partition), list(values)):
                        world.append(partition, *values)
                        hot.read(world.end)
                    case ("merge", int(first)):
                        hot.merge(first)
                    case ("commit", int(back)):
                        start = world.writer.end
                        ends = {place: max(start.get(place, 0), offset - back) for place, offset in world.end.items()}
                        if Position.of(ends) != start:
                            world.trigger(Position.of(ends))
                    case ("hand over", _):
                        hot.hand_over()
                    case ("recompute", _):
                        world.recompute(world.writer.end)
                    case ("promote", _):
                        adopt(world, world.writer.end, hot.release + 1)
                        hot = Hot(world, feed, hot.release + 1)
                    case ("compact", _):
                        world.compact()
                    case ("hot tail killed", _):
                        hot.restart()
                    case ("sink killed", _):
                        sink.close()
                        sink = SinkThread(log, feed)
                    case ("hold is over", _):
                        clock.now += 2 * HOLD_S
                sink.catch_up()
            if world.writer.end != world.end:
                world.trigger()
            sink.catch_up()
            assert log.rows[-1] == log.expected(world.end)
        finally:
            sink.close()
        log.check()


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return Log(nine_hits(tmp_path), "per_page", tmp_path / "target")


def test_a_hot_row_is_in_the_target_with_its_token(log: Log) -> None:
    feed = HotFeed(Clock())
    hot = Hot(log.world, feed)
    with following(log, feed) as sink:
        sink.catch_up()
        log.world.append(0, hit("/", 10))
        hot.read(log.world.end)
        sink.catch_up()
        log.world.trigger()
        hot.hand_over()
        sink.catch_up()
    log.check()
    assert log.positions == [position(9), position(10)], "the commit has the rows that the target has"


def test_a_sink_that_starts_again_waits_for_the_commit_of_the_rows_that_it_sent(log: Log) -> None:
    feed, world = HotFeed(Clock()), log.world
    world.append(0, hit("/", 10), hit("/", 11))
    with following(log, feed) as sink:
        Hot(world, feed).read(world.end)
        sink.catch_up()
    sent = len(log.steps)
    with following(log, HotFeed(Clock())) as sink:
        for end in (10, 11):
            sink.connection.refresh()
            assert log.positions[sent - 1 :] == [position(11)], "nothing older is written"
            world.trigger(position(end))
        sink.connection.refresh()
        wait_for(lambda: len(log.steps) > sent)
    log.check()
    assert [(step.rows, step.gone, step.compared) for step in log.steps[sent:]] == [(0, 0, True)], "no row is written twice"


def test_a_hot_tail_that_is_gone_takes_no_row_back(log: Log) -> None:
    feed, world = HotFeed(clock := Clock()), log.world
    world.append(0, hit("/", 10))
    with following(log, feed) as sink:
        Hot(world, feed).read(world.end)
        sink.catch_up()
        feed.disconnect("it has ended")
        clock.now += 2 * HOLD_S
        sink.catch_up()
        assert stands(sink.connection, world.project.views["per_page"]) == position(9)
        world.append(0, hit("/", 11))
        world.trigger()
        sink.catch_up()
    log.check()
    assert log.positions[-2:] == [position(10), position(11)]


def test_hot_rows_of_records_that_the_log_has_lost_are_taken_back(log: Log) -> None:
    feed, world = HotFeed(Clock()), log.world
    world.append(0, hit("/lost", 10))
    hot = Hot(world, feed)
    with following(log, feed) as sink:
        hot.read(world.end)
        sink.catch_up()
        hot.publish(None, lost=True)
        sink.connection.refresh()
        wait_for(lambda: log.positions[-2:] == [position(10), position(9)])
    assert log.rows[-1] == log.expected(position(9))


def test_a_closed_connection_says_what_the_target_waits_for(log: Log) -> None:
    feed = HotFeed(Clock())
    log.world.append(0, hit("/", 10))
    with following(log, feed) as sink:
        Hot(log.world, feed).read(log.world.end)
        sink.catch_up()
    connection = Connection(Store(log.world.tables, 1))
    view = connection.view("per_page")
    connection.close()
    with pytest.raises(ReadFailed, match=r"counts the log up to \{T/0: 10\}.*only up to \{T/0: 9\}; the sink continues"):
        list(changes_to_send.follow(view, log.target(), EVERYTHING))


def test_a_position_of_a_deleted_topic_is_not_awaited() -> None:
    reached = position(10)
    assert must_await(reached, position(9))
    assert not must_await(reached, position(10))
    assert not must_await(reached, Position.of({("T", 0): 9, ("again", 0): 1}))
