"""A hot tail that follows, restarts and hands over to commits answers what the log says, without a JVM and a broker."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from tandem.infra import kafka
from tandem.ledger.publish.publications import Publications
from tandem.ledger.realtime.commits import Commit
from tandem.speed.hot import follow
from tandem.speed.hot.follow import HotFollower, HotTailEnded, OtherRelease, RecordsLost
from tandem.views.project.project import load_files
from tests import one_process
from tests.speed.hot.beside import Beside, away, beside, last, layer, promote
from tests.speed.sales import sale, some
from tests.speed.test_in_one_process import Layer

__all__ = ["beside", "layer"]

SAME = ("start", "end", "kind", "counts", "rejected", "maxima", "newest", "watermark", "after_final", "identities_since")
"""What a hot commit and a commit of the same range, after equal ones, have in common besides their states."""


@pytest.mark.each_run("1-9-20")
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
        except HotTailEnded:  # commits passed it
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


def test_commits_that_were_merged_with_earlier_ones_are_not_compared(beside: Beside) -> None:
    layer = beside.layer
    layer.topic.append(some([1]))
    layer.drain()
    earlier = last(beside)
    beside.start()
    layer.topic.append(some([2]))
    beside.step(later=0)
    layer.drain()
    commit = last(beside)
    covered = beside.hot.tail.rebase(commit.end, at=layer.now(), watermark=commit.watermark, caught_up=None)
    beside.hot._compare(covered, (replace(commit, start=earlier.start),))
    assert beside.feed.compared == beside.hot.status.compared == 0
    beside.hot._compare(covered, (earlier, commit))
    assert beside.hot.status.compared == 2


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
        assert Publications(layer.tables).latest().cuts["sales"] == layer.end


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
    assert beside.hot.tail.at_end.caught_up == last(beside).caught_up is not None
    layer.topic.append(some([2]))
    layer.drain()
    beside.step()
    assert beside.hot.tail.at_end.caught_up == last(beside).caught_up


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
        with pytest.raises(HotTailEnded, match="outside the hot tail"):
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

    def counted(connection: kafka.BrokerConnection, names: Sequence[str]) -> tuple[kafka.Topic, ...]:
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
    with pytest.raises(HotTailEnded, match="outside the hot tail"):
        beside.step()


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
        with pytest.raises(
            HotTailEnded, match=f"the log no longer has offsets 0 to {low - 1} of partition {partition}, which hold"
        ):
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
