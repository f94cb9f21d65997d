"""A hot tail that follows, restarts and hands over to commits answers what the log says, without a JVM and a broker."""

import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from infra import kafka
from infra.kafka import broker as embedded
from infra.kafka.bulk_reader import LogMoved
from infra.process import hot_report
from infra.process.hot_report import HotReporter
from infra.settings import Settings, Speed
from ledger.delta.errors import Unreadable
from ledger.log.positions import Position
from ledger.publish import publications, releases
from ledger.realtime.commits import Commit
from ledger.realtime.hot_chain import HotCommits
from ledger.realtime.hot_messages import HotMessage, read
from serving.connection import Connection
from serving.memory.hot_feed import HotFeed
from serving.memory.store import Store
from serving.status.hot_tails import hot_tails
from speed.hot import __main__ as process
from speed.hot import follow
from speed.hot.__main__ import HotTails
from speed.hot.follow import Ended, HotFollower, OtherRelease, RecordsLost
from speed.hot.hot_tail import HotTail
from tests import one_process
from tests.one_process import MemoryBroker
from tests.speed.sales import commits, per_minute, sale, some, wait_for
from tests.speed.test_in_one_process import Layer
from views.errors import DefinitionError
from views.project.project import load_files

PARTITIONS = 3
SAME = ("start", "end", "kind", "counts", "rejected", "maxima", "newest", "watermark", "after_final", "identities_since")
"""What a hot commit and a commit of the same range, after equal ones, have in common besides their states."""


@dataclass
class Beside:
    """A server beside a layer: its hot tail, whose clock is `seconds`, and its answers."""

    layer: Layer
    seconds: float = 0.0
    _hot: HotFollower | None = None
    feed: HotFeed = field(init=False)
    connection: Connection = field(init=False)

    def __post_init__(self) -> None:
        self.feed = HotFeed(lambda: self.seconds)
        self.connection = Connection(Store(self.layer.tables, 1, hot=self.feed))

    @property
    def hot(self) -> HotFollower:
        assert self._hot is not None
        return self._hot

    @property
    def hot_commits(self) -> HotCommits:
        return self.feed.commits(1, "sales")

    def start(self) -> None:
        """Another process of hot tails, which begins where commits end."""
        release = releases.load(self.layer.tables, 1)
        project = load_files(release.files)
        self.feed.disconnect("it has ended")
        self._hot = HotFollower(
            self.layer.settings,
            self.layer.tables,
            kafka.connect(one_process.ADDRESS),
            release,
            project.sources["sales"],
            project.views,
            self.layer.now,
            self.feed.apply,
            lambda: self.seconds,
        )
        self._hot.begin()

    def step(self, *, later: float = 6.0) -> None:
        """The process reads, looks at the commits and compares, unless less than 5 seconds have passed."""
        self.seconds += later
        self.hot.step(0)

    @property
    def position(self) -> Position:
        """Up to where answers count."""
        self.connection.refresh()
        return self.connection.snapshot().pinned.snapshot.positions["sales"]

    def check(self) -> None:
        """The answers are those of the log below their position."""
        position = self.position
        rows = self.connection.view("per_minute").rows()
        found = {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows}
        numbers = [
            json.loads(row["value"])["id"]
            for partition, rows_ in self.layer.topic.rows.items()
            for row in rows_[: position.get((self.layer.topic.topic.id, partition), 0)]
            if row is not None and row["value"].startswith(b"{")
        ]
        assert found == per_minute(numbers)


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layer:
    """A layer that has not started."""
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    one_process.hot_stands_in(monkeypatch, broker)
    settings = Settings(state=str(tmp_path), speed=Speed(max_events=25, compact_every=3))
    return Layer(broker, broker.new_topic(partitions=PARTITIONS), settings)


@pytest.fixture
def beside(layer: Layer) -> Beside:
    """A layer that has started, and a server whose hot tail has not."""
    layer.start()
    return Beside(layer)


def last(beside: Beside) -> Commit:
    return [commit for commit in commits(beside.layer.settings) if not commit.mark][-1]


@pytest.mark.parametrize(("seed", "at_once", "offsets"), [(0, 3, 5), (1, 9, 20), (2, 1000, 1_000_000)])
def test_answers_count_each_event_once_whatever_happens_in_between(
    beside: Beside, seed: int, at_once: int, offsets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies in any partition, holes, commits that divide hot commits, restarts of either, cuts."""
    monkeypatch.setattr(follow, "_RESTORED_AT_ONCE", at_once)
    monkeypatch.setattr(follow, "_AT_ONCE", at_once)
    monkeypatch.setattr(follow, "_OFFSETS", offsets)
    dice, layer = random.Random(seed), beside.layer
    beside.start()
    for number in range(24):
        for partition in (0, 2):
            layer.topic.append([*some([dice.randrange(80) for _ in range(dice.randrange(4))]), b"no sale"], partition=partition)
        layer.topic.skip(dice.choice((0, 1)))
        match dice.choice(("read", "read", "read", "commit", "commit", "restart", "restart layer", "recompute")):
            case "commit":
                layer.streaming.trigger(dice.random)
            case "restart":
                beside.start()
            case "restart layer":
                layer.restart()
            case "recompute" if number > 8:
                layer.archive()
                layer.drain()
                layer.recompute()
        try:
            beside.step()
        except Ended:  # commits passed it
            beside.start()
        beside.check()
    while beside.hot.tail.end != layer.end:
        beside.step()
        beside.check()
    assert beside.position == layer.end
    layer.drain()
    beside.step()
    assert beside.hot_commits == ()
    beside.check()
    assert (beside.position, beside.feed.mismatched) == (layer.end, 0)
    assert beside.feed.compared > 0


def test_a_comparison_counts_the_rows_that_differ_and_waits_five_seconds(beside: Beside) -> None:
    layer = beside.layer
    beside.start()
    for number, later in enumerate((6.0, 4.0, 1.0)):
        layer.topic.append(some([3 * number, 3 * number + 1]))
        beside.step(later=0)
        layer.drain()
        beside.step(later=later)
        # Two views; the commit in between is not compared.
        assert (beside.feed.compared, beside.feed.mismatched) == (2 * (1 + number // 2), 0)
    layer.topic.append(some([9, 10, 11]))
    beside.step(later=0)
    (segment,) = beside.hot.tail.segments
    wrong = replace(segment.commit, partials=last(beside).partials)
    beside.hot.tail.segments = (replace(segment, commit=wrong),)
    layer.drain()
    beside.step()
    # Three rows of three minutes and of three shops, of which the commits before have two of each, and other numbers.
    assert (beside.feed.compared, beside.feed.mismatched) == (6, 6)


def test_contents_that_conflict_in_several_partitions_are_not_compared(beside: Beside) -> None:
    """Which of them counts depends on which was read first."""
    layer = beside.layer
    beside.start()
    for partition in (0, 2):
        layer.topic.append([sale(1, amount=1 + partition)], partition=partition)
    beside.step(later=0)
    layer.drain()
    beside.step()
    assert beside.hot.tail.base == layer.end
    assert beside.feed.compared == 0


def test_duplicates_that_commits_alone_still_know_are_not_compared(beside: Beside) -> None:
    """Commits forget identities some time after the dedup window; a process that has just started loads those within."""
    layer = beside.layer
    window = load_files(layer.files).sources["sales"].dedup_window
    for numbers, later in ((range(1, 2), 0.5), (range(2, 22), 0.45), (range(100, 101), 0.1), (range(101, 102), 0.05)):
        layer.topic.append(some(numbers), at=layer.clock)
        layer.drain()
        layer.clock += later * window
    beside.start()
    layer.topic.append(some([1]), at=layer.clock)
    beside.step(later=0)
    (hot,) = beside.hot_commits
    layer.drain()
    beside.step()
    assert (hot.counts.duplicates, last(beside).counts.duplicates) == (0, 1)
    assert (beside.feed.compared, beside.feed.mismatched) == (0, 0)


def test_records_that_left_the_log_before_a_commit_are_not_compared(beside: Beside) -> None:
    layer = beside.layer
    beside.start()
    layer.topic.append(some([1, 2, 3]), partition=0)
    beside.step(later=0)
    layer.topic.rows[0][0] = None  # compacted
    layer.drain()
    beside.step()
    assert (last(beside).counts.events, last(beside).counts.holes) == (2, 1)
    assert (beside.feed.compared, beside.feed.mismatched) == (0, 0)


def test_a_hot_commit_says_of_its_range_what_the_commit_says(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: each.replace(b'maximum("amount")', b'maximum("9 // amount")') for name, each in layer.files.items()}
    monkeypatch.setattr(Layer, "files", files)
    layer.start()
    beside = Beside(layer)
    beside.start()
    hot = list[Commit]()
    for values in (
        [sale(1, seconds=7200), b"{"],
        [sale(2), sale(1), sale(3, amount=0), b"{", b"[]"],
        [sale(4, seconds=7300), sale(1, amount=7)],
    ):
        layer.topic.append(values)
        beside.step()
        hot.append(beside.hot_commits[-1])
        layer.drain()
        assert {name: getattr(hot[-1], name) for name in SAME} == {name: getattr(last(beside), name) for name in SAME}
    assert [commit.counts.late for commit in hot] == [0, 3, 0]
    assert [commit.counts.conflicts for commit in hot] == [0, 0, 1]
    assert any(hot[1].after_final.values())
    assert [sum(each.values()) for each in hot[1].rejected.values() if each] == [1]


def test_a_tail_takes_over_the_watermark_of_commits_that_leave_idle_partitions_out(
    layer: Layer, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {name: each.replace(b'("id",)', b'("id",), idle=timedelta(minutes=1)') for name, each in layer.files.items()}
    monkeypatch.setattr(Layer, "files", files)
    layer.start()
    beside = Beside(layer)
    beside.start()
    layer.topic.append([sale(1)], partition=2, at=layer.clock - timedelta(minutes=5))
    layer.topic.append([sale(2, seconds=7200)], at=layer.clock)
    beside.step()
    (hot,) = beside.hot_commits
    layer.drain()
    ahead = last(beside).watermark
    assert hot.watermark is not None
    assert ahead == hot.watermark + 7200 * 1_000_000
    beside.step()
    for number in (3, 4):
        layer.topic.append([sale(number, seconds=60)], at=layer.clock)
        beside.step()
        hot = beside.hot_commits[-1]
        assert (hot.watermark, hot.counts.late) == (ahead, 1)
        assert list(hot.after_final.values()) == [1]


def test_labels_continue_those_of_commits_and_of_the_batch(beside: Beside) -> None:
    layer = beside.layer
    layer.topic.append([sale(1, seconds=7200)])
    layer.drain()
    watermark = last(beside).watermark
    for number in (2, 3):
        beside.start()
        layer.topic.append([sale(number)], partition=0)
        layer.topic.append([sale(10 * number, seconds=60)], partition=2)
        beside.step()
        (commit,) = beside.hot_commits
        assert (commit.counts.events, commit.counts.late, commit.watermark) == (2, 1, watermark)
        layer.archive()
        layer.drain()
        layer.recompute()
        assert publications.watched(layer.tables).read().cuts["sales"] == layer.end


def test_offsets_before_the_first_that_was_read_are_no_holes(layer: Layer) -> None:
    layer.topic.append(some(range(5)))
    layer.topic.delete_below({0: 3})
    layer.start()
    beside = Beside(layer)
    beside.start()
    layer.topic.append(some([5, 6, 7]))
    beside.step()
    (commit,) = beside.hot_commits
    assert (commit.counts.events, commit.counts.offsets) == (5, 5)
    layer.streaming.trigger(lambda: 0.5)
    beside.step()
    (commit,) = beside.hot_commits
    assert commit.counts.offsets == 5 - last(beside).counts.offsets
    assert 0 < last(beside).counts.events < 5
    assert beside.feed.mismatched == 0


def test_identities_are_kept_as_long_as_the_commits_say(beside: Beside) -> None:
    layer = beside.layer
    layer.topic.append(some([1]))
    layer.drain()
    beside.start()
    assert beside.hot.tail.caught_up == last(beside).caught_up is not None
    layer.topic.append(some([2]))
    layer.drain()
    beside.step()
    assert beside.hot.tail.caught_up == last(beside).caught_up


def test_a_tail_that_commits_have_passed_has_half_a_minute_to_read_on(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = beside.layer
    beside.start()
    beside.step()
    with monkeypatch.context() as patch:
        patch.setattr(HotFollower, "_read", lambda *_: None)
        layer.topic.append(some([1]))
        layer.drain()
        beside.step(later=29)
        beside.step(later=1)
        with pytest.raises(Ended, match="outside the hot tail"):
            beside.step(later=1)
    beside.step()
    with monkeypatch.context() as patch:
        patch.setattr(HotFollower, "_read", lambda *_: None)
        layer.topic.append(some([2]))
        layer.drain()
        beside.step(later=30)  # counted from when the tail last covered them


def test_the_broker_is_asked_each_five_seconds_in_which_nothing_comes(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have deleted the topic, which the client that reads does not notice for long."""
    beside.start()
    asked, topics = list[float](), kafka.topics

    def counted(connection: kafka.Connection, names: Sequence[str]) -> tuple[kafka.Topic, ...]:
        asked.append(beside.seconds)
        return topics(connection, names)

    monkeypatch.setattr(kafka, "topics", counted)
    for later in (4, 1, 4, 1, 1):
        beside.step(later=later)
    assert asked == [5, 10]
    beside.layer.topic.append(some([1]))
    beside.step(later=0)
    beside.step(later=4)
    assert asked == [5, 10, 11]


def test_nothing_is_read_while_the_broker_is_away(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that fails meanwhile would end the tail, whose hot commits are still right."""
    layer = beside.layer
    layer.topic.append(some([1]))
    beside.start()
    beside.step()
    sent = beside.hot_commits
    with monkeypatch.context() as patch:
        patch.setattr(kafka, "topics", away("refused"))
        beside.step()
        assert beside.hot.away == "refused"
        patch.setattr(one_process.Reading, "read", away("no records"))
        beside.step()
        assert beside.hot_commits == sent
    layer.topic.append(some([2]))
    beside.step()
    beside.step()
    assert beside.position == layer.end


def test_commits_that_end_below_the_tails_base_end_it(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """The state folder was replaced by an older one: no reading on covers it."""
    layer = beside.layer
    layer.topic.append(some([1]))
    layer.drain()
    beside.start()
    live, found, _ = beside.hot._committed()
    monkeypatch.setattr(HotFollower, "_committed", lambda _: (live, found[:-1], found[-1].start))
    with pytest.raises(Ended, match="outside the hot tail"):
        beside.step()


def promote(layer: Layer) -> None:
    """Another release of the same definitions is live."""
    release = releases.load(layer.tables, 1)
    files = {**release.files, "tandem.toml": b"# changed"}
    other = releases.store(layer.tables, files, sources=release.sources, views=release.views, by="test", at=layer.now())

    def promoted(parent: publications.Publication | None) -> publications.Publication:
        assert parent is not None
        return replace(parent, release=other.number, kind="promote")

    publications.publish(layer.tables, promoted)


def test_another_live_release_ends_it(beside: Beside) -> None:
    beside.start()
    promote(beside.layer)
    with pytest.raises(OtherRelease):
        beside.step()


def test_a_topic_created_again_is_found_before_its_records_are_sent(beside: Beside) -> None:
    layer = beside.layer
    layer.topic.append(some([1, 2]))
    beside.start()
    beside.step()
    layer.topic.again()
    layer.topic.append(some([3, 4, 5, 6]))
    sent = beside.hot_commits
    with pytest.raises(RecordsLost, match="topics have changed"):
        beside.step(later=1)
    assert beside.hot_commits == sent
    with pytest.raises(RecordsLost, match=f"has not recorded topic '{layer.topic.topic.name}' yet"):
        beside.start()


@pytest.mark.parametrize(("below", "aside"), [({}, False), ({0: 1}, True), ({2: 3}, True)])
def test_a_log_that_lost_identities_keeps_it_aside(beside: Beside, below: dict[int, int], *, aside: bool) -> None:
    layer = beside.layer
    for partition in (0, 2):
        layer.topic.append(some(range(10 * partition, 10 * partition + 4)), partition=partition)
    layer.drain()
    layer.topic.delete_below(below)
    if aside:
        ((partition, low),) = below.items()
        with pytest.raises(Ended, match=f"the log no longer has offsets 0 to {low - 1} of partition {partition}, which hold"):
            beside.start()
    else:
        beside.start()


def test_a_log_that_lost_offsets_above_the_commits_keeps_it_aside(beside: Beside) -> None:
    layer = beside.layer
    layer.topic.append(some(range(4)))
    layer.drain()
    layer.topic.append(some(range(4, 8)))
    layer.topic.delete_below({0: 6})
    with pytest.raises(RecordsLost, match="no longer has offsets 4 to 5 of partition 0, which commits do not count yet"):
        beside.start()


def test_identities_older_than_the_dedup_window_are_not_loaded(beside: Beside) -> None:
    """So the log need not have them."""
    layer = beside.layer
    layer.topic.append(some([1, 2]), at=layer.clock)
    layer.drain()
    layer.clock += timedelta(hours=1)
    layer.topic.append(some([3]), at=layer.clock)
    layer.drain()
    layer.topic.delete_below({0: 2})
    beside.start()
    layer.topic.append(some([2, 3, 4]), at=layer.clock)
    beside.step()
    (commit,) = beside.hot_commits
    assert (commit.counts.events, commit.counts.duplicates) == (2, 1)


@contextmanager
def running(beside: Beside, said: list[str], heard: list[HotMessage]) -> Iterator[Thread]:
    """The hot tails of a project in a thread, as their process has them; what it sends reaches the server and `heard`."""
    stop, (source, sink) = Event(), os.pipe()
    tails = HotTails(beside.layer.settings, os.fdopen(sink, "wb"), stop, said.append, HotReporter(beside.layer.settings.folder))
    stream = os.fdopen(source, "rb")

    def hear() -> None:
        for message in read(stream):
            heard.append(message)
            beside.feed.apply(message)

    threads = [Thread(target=tails.run, daemon=True), Thread(target=hear, daemon=True)]
    for thread in threads:
        thread.start()
    try:
        yield threads[0]
    finally:
        stop.set()
        threads[0].join(60)
        tails.out.close()
        threads[1].join(60)
        stream.close()
    assert not any(thread.is_alive() for thread in threads)


def test_a_process_follows_each_live_release_and_reports_once_why_it_stands_aside(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_AGAIN_S", 0.01)
    monkeypatch.setattr(process, "_WAIT_S", 0.01)
    monkeypatch.setattr(follow, "_ASK_S", 0.0)
    layer, said, heard = beside.layer, list[str](), list[HotMessage]()
    layer.topic.append(some([1, 2]))
    with running(beside, said, heard):
        wait_for(lambda: beside.position == layer.end)
        beside.check()
        # The broker is away for a while, twice for one reason.
        for times in (1, 2):
            with monkeypatch.context() as patch:
                patch.setattr(kafka, "topics", away("refused"))
                wait_for(lambda times=times: len(said) == times)
                assert beside.position == layer.end
            sent = len(heard)
            layer.topic.append(some([10 * times]))
            wait_for(lambda sent=sent: any(each.commit for each in heard[sent:]))
        assert said == ["the hot tail of source 'sales' stands aside: refused"] * 2
        promote(layer)
        layer.topic.append(some([3]))
        wait_for(lambda: (2, "sales") in beside.feed.statuses)
        wait_for(lambda: heard[-1].release == 2 and heard[-1].status.aside is None)
        layer.topic.again()
        wait_for(lambda: "the hot tail of source 'sales' stands aside: the topics have changed" in said)
        wait_for(lambda: "has not recorded topic" in said[-1])
        assert heard[-1].base is None
        sent = len(heard)
        wait_for(lambda: len(heard) > sent + 3)
        assert len(said) == 4


def more_partitions(patch: pytest.MonkeyPatch) -> None:
    topics = kafka.topics
    patch.setattr(kafka, "topics", lambda *of: tuple(replace(topic, partitions=9) for topic in topics(*of)))


def broker_moves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(kafka, "topics", away("refused"))
    patch.setattr(embedded, "address", lambda _: replace(one_process.ADDRESS, bootstrap="elsewhere"))


def fails(target: object, name: str, error: Exception) -> Callable[[pytest.MonkeyPatch], None]:
    def raises(*_: object, **__: object) -> None:
        raise error

    return lambda patch: patch.setattr(target, name, raises)


@pytest.mark.parametrize(
    ("fault", "lost"),
    [
        (more_partitions, False),
        (broker_moves, False),
        (fails(one_process.Reading, "read", kafka.NoBroker("a fault of the client")), False),
        (fails(HotTail, "extend", DefinitionError("prepare failed")), False),
        (fails(one_process.Reading, "read", LogMoved("out of range")), True),
        (fails(kafka, "topics", kafka.NoTopic("no topic 'sales'")), True),
    ],
)
def test_answers_step_back_at_once_only_if_the_log_may_have_lost_records(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, fault: Callable[[pytest.MonkeyPatch], None], *, lost: bool
) -> None:
    monkeypatch.setattr(process, "_AGAIN_S", 0.1)
    monkeypatch.setattr(process, "_WAIT_S", 0.01)
    monkeypatch.setattr(follow, "_ASK_S", 0.0)
    layer, heard = beside.layer, list[HotMessage]()
    committed = layer.end
    with running(beside, [], heard):
        layer.topic.append(some([3, 4]))
        wait_for(lambda: beside.position == layer.end)
        hot = layer.end
        with monkeypatch.context() as patch:
            fault(patch)
            layer.topic.append(some([5]))
            wait_for(lambda: beside.hot_commits == ())
            assert (beside.position, beside.feed.losses) == ((committed, 1) if lost else (hot, 0))
        wait_for(lambda: beside.position == layer.end)
        beside.check()


def test_tables_that_cannot_be_polled_leave_the_hot_commits_and_are_reported_once(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while an object store is overloaded; the tail reads on, and hands over once it can."""
    monkeypatch.setattr(process, "_WAIT_S", 0.01)
    layer, said, heard = beside.layer, list[str](), list[HotMessage]()
    with running(beside, said, heard):
        for numbers in ([1, 2], [3]):
            layer.topic.append(some(numbers))
            wait_for(lambda: beside.position == layer.end)
            with monkeypatch.context() as patch:
                fails(HotFollower, "_committed", Unreadable("cannot read table: 503"))(patch)
                before = len(said)
                wait_for(lambda before=before: len(said) > before)
                layer.topic.append(some([10 * number for number in numbers]))
                wait_for(lambda: beside.position == layer.end)
            layer.drain()
            wait_for(lambda: beside.hot_commits == ())
            beside.check()
    assert said == ["the hot tail of source 'sales' cannot poll the commits: cannot read table: 503"] * 2
    assert all(message.base is not None and message.status.aside is None for message in heard)


def test_a_live_release_that_cannot_be_read_is_reported_once_and_read_again(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "_AGAIN_S", 0.01)
    layer, said, heard = beside.layer, list[str](), list[HotMessage]()
    layer.topic.append(some([1, 2]))
    entry = Path(layer.tables.control("publications"), "_delta_log", f"{1:020}.json")
    whole = entry.read_bytes()
    entry.write_text("garbage{")
    with running(beside, said, heard) as run:
        wait_for(lambda: bool(said) or not run.is_alive())
        run.join(0.2)
        assert run.is_alive()
        assert len(said) == 1
        assert said[0].startswith("the hot tails cannot read the live release: cannot read table ")
        entry.write_bytes(whole)
        wait_for(lambda: beside.position == layer.end)
        beside.check()


def test_comparisons_are_counted_from_the_start_of_each_release(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `tandem_hot_tail_mismatched_rows` says of itself."""
    monkeypatch.setattr(process, "_AGAIN_S", 0.01)
    monkeypatch.setattr(process, "_WAIT_S", 0.01)
    layer, said, heard = beside.layer, list[str](), list[HotMessage]()

    def compared(release: int) -> int | None:
        report = hot_report.read(layer.settings.folder)
        found = None if report is None else report.source(release, "sales")
        return None if found is None or found.aside else found.compared

    with running(beside, said, heard):
        layer.topic.append(some([3]))
        wait_for(lambda: beside.position == layer.end)
        layer.drain()
        wait_for(lambda: compared(1) == 2)
        promote(layer)
        wait_for(lambda: compared(2) is not None)
        assert compared(2) == 0


def away(text: str):
    def fails(*_: object, **__: object) -> None:
        raise kafka.NoBroker(text)

    return fails


def test_a_broker_that_moved_is_followed_to_its_new_address(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_AGAIN_S", 0.01)
    monkeypatch.setattr(process, "_WAIT_S", 0.01)
    monkeypatch.setattr(follow, "_ASK_S", 0.0)
    layer, said, heard = beside.layer, list[str](), list[HotMessage]()
    with running(beside, said, heard):
        layer.topic.append(some([3]))
        wait_for(lambda: beside.position == layer.end)
        layer.drain()
        wait_for(lambda: heard[-1].status.compared == 2)
        with monkeypatch.context() as patch:
            patch.setattr(kafka, "topics", away("refused"))
            patch.setattr(embedded, "address", lambda _: replace(one_process.ADDRESS, bootstrap="elsewhere"))
            wait_for(lambda: any("the broker has moved: refused" in line for line in said))
            assert heard[-1].status.compared == 2, "what was compared counts on"
        layer.topic.append(some([1, 2]))
        wait_for(lambda: beside.position == layer.end)


class Waits(Event):
    """A stop that waits for nothing, notes the seconds of each wait, and is set after the tenth."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout or 0.0)
        if len(self.seconds) == 10:
            self.set()
        return self.is_set()


def test_a_tail_that_fails_again_and_again_starts_ever_more_rarely_and_reports_why_once(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start loads all identities within the dedup window."""
    layer, stop, said, extend = beside.layer, Waits(), list[str](), HotTail.extend

    good = iter([True])

    def fails_but_once(tail: HotTail, *of: Any, **at: Any) -> Commit:
        if len(stop.seconds) != 8 or not next(good, False):
            raise DefinitionError("prepare failed")
        layer.topic.append(some([2]))
        return extend(tail, *of, **at)

    layer.topic.append(some([1]))
    monkeypatch.setattr(HotTail, "extend", fails_but_once)
    reporter = HotReporter(layer.settings.folder)
    with Path(os.devnull).open("wb") as out:
        HotTails(layer.settings, out, stop, said.append, reporter).run()
    assert stop.seconds[:10] == [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]
    assert said == ["the hot tail of source 'sales' stands aside: prepare failed"] * 2


def test_a_process_whose_identities_still_load_is_reported_as_starting(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, begun, begin = beside.layer.settings, Event(), HotFollower.begin
    found = list[str | None]()

    def begins(follower: HotFollower) -> None:
        state = hot_tails(settings, 1, ["sales"])["sales"]
        found.append(None if state is None else state.aside)
        begun.set()
        begin(follower)

    monkeypatch.setattr(HotFollower, "begin", begins)
    with running(beside, [], []):
        assert begun.wait(60)
    assert found[0] == "it is starting and loads the identities within the dedup window"


def test_a_defect_or_a_server_that_has_ended_ends_the_process(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    hooked = list[str]()
    monkeypatch.setattr("threading.excepthook", lambda hook: hooked.append(str(hook.exc_value)))
    with monkeypatch.context() as patch, running(beside, [], []) as run:
        patch.setattr(HotFollower, "begin", lambda _: 1 // 0)
        run.join(60)
        assert not run.is_alive()
    assert hooked == ["integer division or modulo by zero"]
    source, sink = os.pipe()
    os.close(source)
    stop = Event()
    reporter = HotReporter(beside.layer.settings.folder)
    HotTails(beside.layer.settings, os.fdopen(sink, "wb", 0), stop, str, reporter).run()  # type: ignore[arg-type]
    assert stop.is_set()
