"""The process of hot tails: it follows each live release, reports why a tail stands aside, and starts it again."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import cycle, pairwise
from pathlib import Path
from threading import Event, Thread
from typing import Any
from weakref import ReferenceType, ref

import pytest

from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.kafka.bulk_reader import LogMoved, ReadRecords
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.hot import report as reports
from tandem.ledger.hot.messages import HotMessage, read
from tandem.ledger.hot.report import HotReporter, hot_tails
from tandem.ledger.realtime.commits import Commit
from tandem.speed.hot import __main__ as process
from tandem.speed.hot import follow
from tandem.speed.hot.__main__ import HotTails
from tandem.speed.hot.follow import HotFollower
from tandem.speed.hot.hot_tail import HotTail
from tandem.views.errors import DefinitionError
from tests import one_process
from tests.speed.hot.beside import Beside, away, beside, layer, promote
from tests.speed.sales import some, wait_for

__all__ = ["beside", "layer"]


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
        found = next((report.source(release, "sales") for report in reports.read(layer.settings.folder)), None)
        return None if found is None or found.aside else found.compared

    with running(beside, said, heard):
        layer.topic.append(some([3]))
        wait_for(lambda: beside.position == layer.end)
        layer.drain()
        wait_for(lambda: compared(1) == 2)
        promote(layer)
        wait_for(lambda: compared(2) is not None)
        assert compared(2) == 0


class Waits(Event):
    """A stop for which no time passes: `waited` is how many seconds were waited for, and each wait calls `passing` first."""

    def __init__(self, passing: Callable[[], object] = int) -> None:
        super().__init__()
        self.waited, self.passing = 0.0, passing

    def wait(self, timeout: float | None = None) -> bool:
        self.passing()
        self.waited += timeout or 0.0
        return self.is_set()


@dataclass
class Starts:
    """The process of hot tails until a tail has started `most` times: the releases and the times of the starts, in seconds."""

    patch: pytest.MonkeyPatch
    stop: Waits
    most: int
    releases: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    tails: list[ReferenceType[HotFollower]] = field(default_factory=list)

    def run(self, beside: Beside) -> list[str]:
        """Returns what the process logs."""
        said, settings, begin = list[str](), beside.layer.settings, HotFollower.begin

        def begins(follower: HotFollower) -> None:
            self.releases.append(follower.release.number)
            self.times.append(self.stop.waited)
            self.tails.append(ref(follower))
            if len(self.times) == self.most:
                self.stop.set()
            begin(follower)

        self.patch.setattr(process, "_WAIT_S", 0.01)
        self.patch.setattr(HotFollower, "begin", begins)
        with Path(os.devnull).open("wb") as out:
            HotTails(settings, out, self.stop, said.append, HotReporter(settings.folder)).run()
        return said

    @property
    def pauses(self) -> list[float]:
        return [later - earlier for earlier, later in pairwise(self.times)]


@pytest.mark.slow
def test_a_tail_that_fails_again_and_again_starts_ever_more_rarely_and_reports_why_once(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start loads all identities within the dedup window."""
    layer, starts, extend = beside.layer, Starts(monkeypatch, Waits(), 11), HotTail.extend
    good = iter([True])

    def fails_but_once(tail: HotTail, *of: Any, **at: Any) -> Commit:
        if len(starts.times) != 9 or not next(good, False):
            raise DefinitionError("prepare failed")
        layer.topic.append(some([2]))
        return extend(tail, *of, **at)

    layer.topic.append(some([1]))
    monkeypatch.setattr(HotTail, "extend", fails_but_once)
    said = starts.run(beside)
    assert starts.pauses == [1, 2, 4, 8, 16, 32, 60, 60, 1, 2]
    assert said == ["the hot tail of source 'sales' stands aside: prepare failed"] * 2


def test_a_tail_that_fails_before_it_folds_anything_starts_ever_more_rarely(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, good = one_process.Reading.read, cycle([True, False])

    def reads_once(reading: one_process.Reading, **how: Any) -> ReadRecords:
        if next(good):
            return read(reading, **how)
        raise kafka.NoBroker("a fault of the client")

    monkeypatch.setattr(one_process.Reading, "read", reads_once)
    starts = Starts(monkeypatch, Waits(), 5)
    starts.run(beside)
    assert starts.pauses == [1, 2, 4, 8]


def test_a_broker_that_is_away_is_asked_again_each_second(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a start loads nothing."""
    monkeypatch.setattr(kafka, "topics", away("refused"))
    starts = Starts(monkeypatch, Waits(), 5)
    starts.run(beside)
    assert starts.pauses == [1] * 4


def test_a_tail_that_pauses_holds_nothing_and_another_release_ends_the_pause(
    beside: Beside, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next release's tails of all sources start only once all of this release's have ended."""
    layer, held = beside.layer, list[HotFollower | None]()

    def unprepared(*_: object, **__: object) -> Commit:
        raise DefinitionError("prepare failed")

    def passing() -> None:
        held.extend(tail() for tail in starts.tails)
        if starts.stop.waited == 40:
            promote(layer)

    starts = Starts(monkeypatch, Waits(passing), 8)
    layer.topic.append(some([1]))
    monkeypatch.setattr(HotTail, "extend", unprepared)
    starts.run(beside)
    assert starts.times == [0, 1, 3, 7, 15, 31, 41, 42]
    assert starts.releases == [1] * 6 + [2] * 2
    assert not any(held)


def test_a_process_whose_identities_still_load_has_not_reported_yet(beside: Beside, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert found[0] is not None
    assert found[0].startswith("its process has not reported on this source yet: it loads identities, or ")


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
