"""What a hot tail cannot follow ends it at once and with its reason; nothing that it does not know is answered."""

from copy import copy
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tandem.infra import kafka
from tandem.infra.kafka import Topic
from tandem.infra.settings import ServingSettings, Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.messages import HotMessage
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.releases import Releases
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.hot.__main__ import Reports
from tandem.speed.hot.comparison import alike, differing
from tandem.speed.hot.follow import HotFollower, HotTailEnded
from tandem.speed.hot.hot_tail import HotTail, NotTiling
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.task import Task
from tandem.speed.source.counted_at import CountedRange, earlier_topic
from tandem.views.arrow.arrays import from_ipc
from tandem.views.instant import microseconds
from tests.serving.world import NOON, SOURCE, World, nine_hits, position
from tests.speed.hot.test_hot_equals_cold import MINUTES, PROJECT, Played


class Connection:
    """A connection of which only the address is used."""

    address = kafka.Address("127.0.0.1:1", {}, 1)


class Reader:
    """What the bulk reader does when the broker refuses."""

    def read(self, *, most: int, wait_s: float) -> Any:
        raise kafka.BrokerRefused("Kafka refuses to return records")

    def close(self) -> None:
        """Nothing is open."""


def following(world: World, base: Position, *, most: int | None = None) -> tuple[HotFollower, list[HotMessage]]:
    """A hot tail from `base` on, without a broker that answers."""
    sent: list[HotMessage] = []
    release, source = Releases(world.tables).load(1), world.project.sources[SOURCE]
    settings = Settings(state=str(world.state), serving=ServingSettings(hot_mb=1))
    connection: Any = Connection()
    found = HotFollower(settings, world.tables, connection, release, source, world.project.views, lambda: NOON, sent.append)
    task = Task(release.files, SOURCE, {name: name for name in world.project.views}, generations=("T",))
    found.tail = HotTail(task, source, world.project.views, FollowerState(DedupWindow(0), end=base), most=most)
    reader: Any = Reader()
    found._reader = reader
    found._broker_asked = found._covered = found.clock()
    return found, sent


def test_a_reader_that_failed_is_not_read_on(tmp_path: Path) -> None:
    """Its client is behind records that it did not return, which would look like holes."""
    world = nine_hits(tmp_path)
    one, _ = following(world, world.writer.end)
    with pytest.raises(HotTailEnded, match="refuses to return records"):
        one.step(0)


def test_a_full_tail_that_commits_pass_starts_again_at_once(tmp_path: Path) -> None:
    world = nine_hits(tmp_path)
    one, _ = following(world, position(6), most=0)
    with pytest.raises(HotTailEnded, match="outside the hot tail"):
        one.step(0)


def test_only_a_tail_that_reads_on_may_cover_more() -> None:
    played = Played("bare", around=False, kinds=("minutes",))
    played.append([(1, 1), (2, 0)])
    played.read(0)
    base, end, further = played.hot.base, played.hot.end, Position.of({("T", 0): 9, ("T", 1): 9})
    assert played.hot.may_cover(end)
    assert played.hot.may_cover(further)
    played.hot.most = 1
    assert played.hot.may_cover(end)
    assert not played.hot.may_cover(further)
    assert played.hot.may_cover(base)


def test_a_tail_without_memory_for_identities_says_since_when_it_knows_them() -> None:
    """Then duplicates may count, which no comparison holds against it."""
    played = Played("sales", around=False, kinds=("minutes",))
    played.hot = HotTail(played.task, played.of, played.views, FollowerState(DedupWindow(MINUTES, 1)))
    for number in (1, 3, 7):
        played.append([(number, 1)])
        played.hot.extend(pa.concat_tables(played.records(played.hot.end, played.end)), played.end, at=NOON)
    first, *others = played.hot.commits
    assert [one.identities_since for one in played.hot.commits] == [None, None, NOON], "those before each range"
    again = copy(played.hot)
    assert not again.rebase(first.end, at=NOON).evicted
    assert again.rebase(others[-1].end, at=NOON).evicted
    assert not played.hot.rebase(others[0].end, at=NOON).evicted
    assert played.hot.rebase(others[1].end, at=NOON).evicted, "of a part of the range"


def test_identities_are_forgotten_as_the_commits_forget_them() -> None:
    """Whatever a commit says until when all is counted, later hot commits say, too, until another commit says more."""
    played, known = Played("sales", around=False, kinds=("minutes",)), None
    for number, until in zip((1, 3, 5, 7), (None, NOON, None, NOON + timedelta(minutes=1)), strict=True):
        played.append([(number, 1)])
        played.hot.extend(pa.concat_tables(played.records(played.hot.end, played.end)), played.end, at=NOON)
        assert played.hot.commits[-1].caught_up == known
        known = until or known
        played.hot.rebase(played.end, at=NOON, caught_up=until)
        assert played.hot.at_end.caught_up == known
        window = played.hot.at_base.dedup_window
        assert window.caught_up == (None if known is None else microseconds(known))


def test_a_tail_extends_only_from_its_end_and_starts_again_only_within() -> None:
    played = Played("bare", around=False, kinds=("minutes",))
    played.append([(1, 1), (2, 0)])
    end, nothing = played.end, pa.concat_tables(played.records(LOG_START, LOG_START))
    further = Position.of({("T", 0): 2, ("T", 1): 1})
    with pytest.raises(NotTiling, match="does not follow"):
        played.hot.extend(nothing, LOG_START, at=NOON)
    played.read(0)
    for wrong in (end, LOG_START, Position.of({("T", 0): 5})):
        with pytest.raises(NotTiling, match="does not follow"):
            played.hot.extend(nothing, wrong, at=NOON)
    with pytest.raises(NotTiling, match="outside the hot tail"):
        played.hot.rebase(further, at=NOON)
    played.hot.rebase(end, at=NOON)
    with pytest.raises(NotTiling, match="outside the hot tail"):
        played.hot.rebase(LOG_START, at=NOON)


def test_a_tail_is_full_at_its_bound() -> None:
    played = Played("sales", around=False, kinds=("minutes",))
    assert played.hot.nbytes == 0
    played.append([(1, 1)])
    played.read(0)
    (segment,) = played.hot.segments
    used = segment.records.nbytes + len(segment.commit.partials["minutes"]) + segment.identities.keys.nbytes
    assert played.hot.nbytes == segment.nbytes > used
    for most, full in ((None, False), (segment.nbytes + 1, False), (segment.nbytes, True), (segment.nbytes - 1, True)):
        played.hot.most = most
        assert played.hot.full is full


@pytest.mark.parametrize("kind", ["minutes", "shops"])
def test_rows_that_only_one_side_has_differ_whichever_side_it_is(kind: str) -> None:
    played = Played("bare", around=False, kinds=(kind,))
    for number in (2, 4):
        played.append([(number, 0)])
        played.read(0)
    name, view = next(iter(played.views.items()))
    one, other = ([from_ipc(commit.partials[name])] for commit in played.hot.commits)
    assert differing(view, [*one, *other], [*other, *one]) == 0
    assert differing(view, one, [*one, *other]) == differing(view, [*one, *other], one) == 1
    assert differing(view, one, []) == differing(view, [], one) == 1
    assert differing(view, one, other) == 1


def test_records_above_the_commits_are_bounded_while_identities_are_loaded(tmp_path: Path) -> None:
    world = nine_hits(tmp_path)
    one, _ = following(world, world.writer.end)
    one._wait(pa.table({"value": [b"x" * (1 << 19)]}))
    with pytest.raises(HotTailEnded, match="more than 1 MB"):
        one._wait(pa.table({"value": [b"x" * (1 << 19)]}))


def test_identities_of_an_earlier_topic_keep_the_tail_aside() -> None:
    """Only the archive has them."""
    new, old = Topic("sales", "new", 1), {("old", 0): 8}
    before = CountedRange(LOG_START, Position.of({**old, ("new", 0): 3}), NOON)
    after = CountedRange(before.end, Position.of({**old, ("new", 0): 9}), NOON)
    assert earlier_topic([before, after], [new], {}) == "old"
    assert earlier_topic([after], [new], {}) is None
    assert earlier_topic([before], [new], {("old", 0): 8}) is None
    assert earlier_topic([], [new], {}) is None


@pytest.mark.parametrize(
    ("view", "hot", "committed", "partitions", "expected"),
    [
        ("minutes", Counts(duplicates=2), Counts(duplicates=2), 2, True),
        ("minutes", Counts(duplicates=2, conflicts=1), Counts(duplicates=2), 2, False),
        ("minutes", Counts(duplicates=2), Counts(duplicates=2, conflicts=1), 2, False),
        ("minutes", Counts(duplicates=2, conflicts=1), Counts(duplicates=2, conflicts=1), 1, True),
        ("minutes", Counts(duplicates=3), Counts(duplicates=2), 1, False),
        ("minutes", Counts(duplicates=1), Counts(duplicates=2), 1, False),
        ("all_minutes", Counts(holes=1), Counts(holes=2), 1, False),
        ("all_minutes", Counts(holes=2), Counts(holes=1), 1, False),
        ("minutes", Counts(holes=2), Counts(holes=2), 2, True),
        ("pairs", Counts(duplicates=2), Counts(duplicates=2), 2, False),
        ("pairs", Counts(duplicates=2), Counts(duplicates=2), 1, True),
        ("pairs", Counts(), Counts(), 2, True),
        ("all_pairs", Counts(events=1), Counts(events=2), 2, True),
    ],
)
def test_only_what_may_not_depend_on_the_division_is_compared(
    view: str, hot: Counts, committed: Counts, partitions: int, *, expected: bool
) -> None:
    assert alike(PROJECT.views[view], hot, committed, partitions=partitions) is expected


def test_a_reason_is_reported_once_until_another_one_or_all_is_well() -> None:
    said: list[str] = []
    reports = Reports("it stands aside", said.append)
    for why in ("offsets 3 to 7 are gone", "offsets 4 to 12 are gone", "no broker", "no broker", "offsets 5 to 9 are gone"):
        reports.report(why)
    reports.report(None)
    reports.report("offsets 5 to 9 are gone")
    assert said == [
        "it stands aside: offsets 3 to 7 are gone",
        "it stands aside: no broker",
        *["it stands aside: offsets 5 to 9 are gone"] * 2,
    ]


def test_folds_use_a_part_of_a_core_but_for_records_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fold that costs 0.1 s is followed by the next one 0.2 s after it began, however long it waited for its core; a log that
    has more is read on at once.
    """
    world = nine_hits(tmp_path)
    one, _ = following(world, world.writer.end)
    now, used, slept = [100.0], [7.0], list[float]()
    one.clock, one.cpu = lambda: now[0], lambda: used[0]
    one._broker_asked = one._covered = one._looked = 100.0

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    def fold(_: HotFollower) -> bool:
        now[0] += 0.15
        used[0] += 0.1
        return True

    one.sleep = sleep
    monkeypatch.setattr(HotFollower, "_fold", fold)
    monkeypatch.setattr(HotFollower, "_hand_over", lambda _: None)
    monkeypatch.setattr(HotFollower, "_read", lambda *_: False)
    assert one.step(0.2)
    assert slept == []
    assert not one.step(0.02), "it looks at the commits meanwhile"
    assert one.step(0.2)
    assert slept == pytest.approx([0.02, 0.03])
    monkeypatch.setattr(HotFollower, "_read", lambda *_: True)
    slept.clear()
    for _ in range(3):
        one.step(1.0)
    assert slept == pytest.approx([0.05])


@pytest.mark.parametrize(
    ("poll_ms", "local", "seconds"), [(50, True, 0.25), (50, False, 5), (60_000, True, 60), (60_000, False, 60)]
)
def test_an_idle_tail_never_polls_an_object_store_more_often_than_a_busy_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, poll_ms: int, local: bool, seconds: float
) -> None:
    world = nine_hits(tmp_path)
    one, _ = following(world, world.writer.end)
    one.settings = Settings(state=str(world.state), serving=ServingSettings(poll_ms=poll_ms))
    monkeypatch.setattr(Tables, "local", property(lambda _: local))
    assert one._look_s == seconds
