"""Answers with a hot tail at a position equal the cold answer there, whatever commits take its place, and when."""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.hot.chain import HotChange, HotCommits, changed, decoded, encoded
from tandem.ledger.log.counts import plus
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.realtime.commits import Commit
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.within_task import identified, identities, values
from tandem.speed.hot import hot_tail
from tandem.speed.hot.comparison import differing
from tandem.speed.hot.hot_tail import Covered, HotTail, states
from tandem.speed.micro_batch.fold import fold_shares
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.task import Task, share_of
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.kernel import decode, deduplicate, merge_states, partial, prepare
from tandem.views.project.project import load_files
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import RECORDS_SCHEMA
from tandem.views.source.watermark import Maxima, later, maxima_of, newest, watermark
from tandem.views.view import View
from tests.samples import share

START = datetime(2026, 11, 1, tzinfo=UTC)
MINUTES = 600_000_000
PARTITIONS = 2
DEFINITIONS = """
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated
from tandem import Event, Scale, Source, View, approx_quantiles, collect_set, count, count_distinct, count_window, first, funnel
from tandem import hopping, last, matches, maximum, pairs, mean, session, sliding_count_window, total, tumbling

class Sale(Event):
    id: int
    at: datetime
    shop: str
    amount: int
    price: Annotated[Decimal, Scale(1, rounding="half_even")]
    tags: dict[str, int | None]

sales = Source(topic="sales", event=Sale, event_time="at", identity=("id",), idle=timedelta.max)
bare = Source(topic="sales", event=Sale, event_time="at", idle=timedelta.max)
ever = Source(topic="sales", event=Sale, event_time="at", identity=("id",), identity_spans="any_time", idle=timedelta.max)

n = {"n": count(), "sum": total("amount"), "price": total("price"), "rounded": total("_rounded"), "tagged": total("tags['a']")}
more = {**n, "mean": mean("amount"), "most": maximum("amount"), "ids": count_distinct("id", limit=9),
        "set": collect_set("amount", limit=8),
        "steps": funnel(("amount > 2", "amount < 5"), within=timedelta(minutes=1), by="id % 4", limit=20),
        "waits": pairs("amount > 2", "amount < 5", within=timedelta(minutes=1), by="id % 4", limit=20),
        "rises": matches("up{2,} down", define={"up": "amount > PREV(amount)", "down": "amount < 4"}, limit=20),
        "first": first("id"), "last": last("id"), "half": approx_quantiles("amount", (0.5,))}
five, two = timedelta(minutes=5), timedelta(minutes=2)

def views_of(source):
    keys = {"shop": "shop", "tags": "cardinality(tags)"}
    return (
        View(source=source, keys=keys, window=tumbling(minutes=1), measures=more),
        View(source=source, keys=keys, measures=more, where="amount <> 3"),
        View(source=source, keys={**keys, "odd": "amount % 2"}, window=hopping(five, every=two), measures=n),
        View(source=source, window=session(minutes=2), measures=n),
        View(source=source, keys=keys, window=count_window(2), measures=n),
        View(source=source, keys=keys, window=sliding_count_window(2), measures=n),
    )

minutes, shops, hops, visits, pairs, lasts = views_of(sales)
all_minutes, all_shops, all_hops, all_visits, all_pairs, all_lasts = views_of(bare)
ever_minutes, ever_shops, ever_hops, ever_visits, ever_pairs, ever_lasts = views_of(ever)
SOURCES = (sales, bare, ever)
VIEWS = (minutes, shops, hops, visits, pairs, lasts, all_minutes, all_shops, all_hops, all_visits, all_pairs, all_lasts,
         ever_minutes, ever_shops, ever_hops, ever_visits, ever_pairs, ever_lasts)
"""
FILES = {"definitions.py": DEFINITIONS.encode(), "tandem.toml": b""}
PROJECT = load_files(FILES)
IN_ORDER = ("pairs", "lasts")
COLUMNS = ("topic_id", "partition", "offset", "timestamp", "timestamp_type", "value")
SCHEMA = pa.schema([RECORDS_SCHEMA.field(name) for name in COLUMNS])

ids = st.integers(0, 7)
append = st.tuples(
    st.just("append"), st.lists(st.tuples(ids, st.integers(0, PARTITIONS - 1)), min_size=1, max_size=5).filter(bool)
)
read = st.tuples(st.just("read"), st.integers(0, 2))
commit = st.tuples(st.just("commit"), st.lists(st.integers(1, 4), min_size=PARTITIONS, max_size=PARTITIONS))
rebase = st.tuples(st.just("rebase"), st.just(None))
restart = st.tuples(st.just("restart"), st.just(None))
compact = st.tuples(st.just("compact"), st.just(None))
leave_out = st.tuples(st.just("leave_out"), st.sets(st.integers(0, 1)))
moves = st.tuples(append, read, append | read, read, commit, append | restart | compact, read | rebase, rebase, append, read)
rounds = st.tuples(moves, st.lists(leave_out, max_size=2), st.integers(1, 3)).map(
    lambda one: [*one[0][: one[2]], *one[1][:1], *one[0][one[2] : 2 * one[2]], *one[1][1:], *one[0][2 * one[2] :]]
)
steps = st.lists(rounds, min_size=1, max_size=3).map(lambda several: [step for one in several for step in one])


def sale(number: int, *, again: int = 0) -> bytes:
    """One record; its content follows from its number, so duplicates differ in their positions, and in time if sent `again`."""
    if number == 5:
        return b"no sale"
    at = START + timedelta(seconds=(number * 47 + again * 61) % 400)
    tags = {"a": number, "b": None, "ä": -number}
    pairs = [*tags.items()][: number % 4]
    sold = {
        "id": number,
        "at": at.isoformat(),
        "shop": "ab"[number % 2],
        "amount": number * 3 % 5,
        "price": number * 0.125,
        "tags": dict(reversed(pairs) if again % 2 else pairs),
    }
    return json.dumps(sold).encode()


@dataclass
class Played:
    """A log, the commits of its realtime table, a process that follows the log, and a server that gets its changes.

    `around` says whether duplicates may be in different partitions, `kinds` which views there are, `fanout` how many segments of
    the hot tail become one.
    """

    source: str
    around: bool
    kinds: tuple[str, ...]
    fanout: int = 8
    log: list[list[bytes]] = field(default_factory=lambda: [[] for _ in range(PARTITIONS)])
    commits: list[Commit] = field(default_factory=list)
    window: DedupWindow = field(default_factory=lambda: DedupWindow(MINUTES))
    served: HotCommits = ()
    compared: int = 0
    boundaries: set[Position] = field(default_factory=set)
    stood: dict[str, Position] = field(default_factory=dict)
    hot: HotTail = field(init=False)

    def __post_init__(self) -> None:
        self.of = PROJECT.sources[self.source]
        prefix = {"sales": "", "bare": "all_", "ever": "ever_"}[self.source]
        # In which partition the copy lies that counts matters to windows in the order of the log.
        names = [f"{prefix}{kind}" for kind in self.kinds if not self.around or kind not in IN_ORDER]
        self.views = {name: PROJECT.views[name] for name in names}
        self.task = Task(FILES, self.source, {name: name for name in self.views}, generations=("T",))
        self.restart()

    def records(self, start: Position, end: Position) -> list[pa.Table]:
        """The records of a range, partition by partition."""
        found = []
        for partition, values_ in enumerate(self.log):
            low, high = start.get(("T", partition), 0), end.get(("T", partition), 0)
            rows = [("T", partition, low + row, START, 0, value) for row, value in enumerate(values_[low:high])]
            found.append(pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows], SCHEMA))
        return found

    @property
    def end(self) -> Position:
        """Where the log ends."""
        return Position.of({("T", partition): len(values_) for partition, values_ in enumerate(self.log)})

    @property
    def maxima(self) -> Maxima:
        """The newest times that the commits have counted."""
        return newest(commit.maxima for commit in self.commits)

    @property
    def reached(self) -> int | None:
        """The watermark of the commits."""
        return later(*(commit.watermark for commit in self.commits))

    @property
    def committed(self) -> Position:
        """Where the commits end."""
        return self.commits[-1].end if self.commits else LOG_START

    def append(self, numbers: Sequence[tuple[int, int]]) -> None:
        """Without identity, or if duplicates stay in their partition, the number decides the partition."""
        for number, partition in numbers:
            there = self.log[partition if self.around else number % PARTITIONS]
            there.append(sale(number, again=len(there) if self.source == "ever" else 0))

    def commit(self, shares: Sequence[int]) -> None:
        """One micro-batch of the speed layer, of some quarters of what each partition has."""
        start, end = self.committed, dict(self.end)
        places = {("T", p): start.get(("T", p), 0) for p in range(PARTITIONS)}
        to = Position.of(
            {p: low + (end.get(p, 0) - low) * some // 4 for (p, low), some in zip(places.items(), shares, strict=True)}
        )
        if to == start:
            return
        tasks = [table for table in self.records(start, to) if table.num_rows]
        task = replace(self.task, maxima=self.maxima)
        folded = fold_shares(
            lambda task: [share_of(task, one) for one in tasks], task, self.views, ranges(start, to), self.window
        )
        self.window = self.window.extended(folded.identities, at=0, caught_up=0)
        reached = later(self.reached, watermark(newest([self.maxima, folded.maxima]), self.of.idle))
        more: dict[str, Any] = {"partials": folded.partials, "maxima": folded.maxima, "watermark": reached}
        self.commits.append(Commit(start, to, 1, "fold", counts=folded.counts, **more))

    def read(self, back: int) -> None:
        """The process folds what is new, but for some of the newest records."""
        end, last = dict(self.end), self.hot.end
        to = Position.of({p: max(last.get(p, 0), offset - back) for p, offset in end.items()})
        if to != last:
            commit = self.hot.extend(pa.concat_tables(self.records(last, to)), to, at=START)
            self.apply(HotChange(self.hot.base, commit))
            for merged in self.hot.compact():
                self.apply(HotChange(self.hot.base, merged))
            assert [one.partials for one in self.served] == [one.partials for one in self.hot.commits]

    def leave_out(self, places: Collection[int]) -> None:
        """From now on these views stand aside."""
        self.hot.left_out = frozenset(name for place, name in enumerate(self.views) if place in places)

    def rebase(self, _: None = None) -> None:
        """The process starts from where commits end, if it has come that far; else it reads on."""
        if not self.hot.covers(self.committed) or self.committed == self.hot.base:
            return
        before = self.hot.commits
        covered = self.hot.rebase(self.committed, at=START, watermark=self.reached)
        first = self.hot.commits[0] if self.hot.commits and self.hot.commits[0] not in before else None
        self.apply(HotChange(self.hot.base, first))
        self.compare(covered)

    def compare(self, covered: Covered) -> None:
        """The process compares what it had folded with the commits in its place."""
        passed = continued(self.commits, covered)
        if passed is None:
            return
        for name in covered.partials:
            view = self.views[name]
            assert not differing(view, states(covered, name), [from_ipc(commit.partials[name]) for commit in passed])
            self.compared += 1
        assert covered.counts.events == sum(commit.counts.events for commit in passed)

    def restart(self, _: None = None) -> None:
        """A process that starts where commits end, and loads the identities below from the log."""
        window = DedupWindow(MINUTES)
        for table in self.records(LOG_START, self.committed):
            found = identified(self.of, decode(self.of, table).events, ("T",))
            window = window.extended(values(identities(self.of, found)), at=0, caught_up=0)
        state = FollowerState(window, end=self.committed, maxima=self.maxima, watermark=self.reached)
        self.hot = HotTail(self.task, self.of, self.views, state, fanout=self.fanout)
        self.served, self.stood = (), {}

    def compact(self, _: None = None) -> None:
        """Neighbouring commits become one, but for the last two."""
        old, kept = self.commits[:-2], self.commits[-2:]
        if len(old) > 1:
            partials = {
                name: to_ipc(merge_states(view, [from_ipc(commit.partials[name]) for commit in old]))
                for name, view in self.views.items()
            }
            counts, maxima = plus(*(commit.counts for commit in old)), newest(commit.maxima for commit in old)
            more: dict[str, Any] = {"partials": partials, "maxima": maxima, "watermark": old[-1].watermark}
            self.commits = [Commit(old[0].start, old[-1].end, 1, "fold", counts=counts, **more), *kept]

    def apply(self, change: HotChange) -> None:
        """The server gets a change."""
        sent = None if change.commit is None else decoded(encoded(change.commit))
        self.served = changed(self.served, HotChange(change.base, sent))

    def check(self) -> None:
        """The answers of the server equal those of the whole log below their position."""
        tail = RealtimeTail(LOG_START, self.committed, tuple(self.commits)).with_hot(self.served)
        for name, view in self.views.items():
            self.check_view(name, view, tail.of(name))
            every = tail.of(name).every
            assert all(tail.of(name).up_to(commit.end).every == every[: n + 1] for n, commit in enumerate(every))
        self.check_counts(tail.every, pa.concat_tables(self.records(LOG_START, tail.end)), tail.end)
        for commit in tail.every:
            self.check_labels(commit)

    def check_view(self, name: str, view: View, tail: RealtimeTail) -> None:
        """A view's answers equal those of the log below their position, which never moves back once commits are handed over."""
        assert self.committed.at_or_below(tail.end)
        events = decode(self.of, pa.concat_tables(self.records(LOG_START, tail.end))).events
        prepared = prepare(self.of, deduplicate(self.of, events, generations=("T",)).events, ("T",))
        cold = partial(view, prepared.events, EMPTY, prepared.failed).states
        assert not differing(view, [from_ipc(commit.partials[name]) for commit in tail.every], [cold]), (name, tail.end)
        if self.hot.base == self.committed:
            assert self.stood.get(name, LOG_START).at_or_below(tail.end), name
            self.stood[name] = tail.end

    def check_counts(self, commits: Sequence[Commit], records: pa.Table, end: Position) -> None:
        """The counts add up to those of one fold; in which partition the copy lies that counts decides which events are late."""
        whole = fold_shares(
            lambda task: [share_of(task, records)], self.task, self.views, ranges(LOG_START, end), DedupWindow(MINUTES)
        ).counts
        found = plus(*(commit.counts for commit in commits))
        assert (replace(found, late=0), self.around or found.late) == (replace(whole, late=0), self.around or whole.late)

    def check_labels(self, commit: Commit) -> None:
        """A watermark is the least of the partitions' newest times, or what it was before a partition's first event."""
        self.boundaries.add(commit.end)
        if not self.around:
            below = [self.least(end) for end in self.boundaries if end.at_or_below(commit.end)]
            assert self.least(commit.end) <= (commit.watermark or 0) <= max(below)

    def least(self, end: Position) -> int:
        """The least of the newest times of all partitions that have an event below a position; 0 if none has."""
        events = decode(self.of, pa.concat_tables(self.records(LOG_START, end))).events
        return watermark(maxima_of(self.of, deduplicate(self.of, events, generations=("T",)).events), self.of.idle) or 0


def continued(commits: Sequence[Commit], covered: Covered) -> Sequence[Commit] | None:
    """The commits of a range; None if compaction has merged across its ends."""
    ends = [LOG_START, *(commit.end for commit in commits)]
    if covered.start not in ends or covered.end not in ends:
        return None
    return commits[ends.index(covered.start) : ends.index(covered.end)]


@share(30, quick=5)
@given(
    steps,
    st.sampled_from([("sales", False), ("sales", True), ("bare", False), ("ever", False)]),
    st.sampled_from([("minutes", "pairs"), ("shops", "hops"), ("visits", "lasts")]),
    st.sampled_from([2, 3, 8]),
)
def test_a_hot_answer_equals_the_cold_answer_at_its_position(
    steps: list[tuple[str, object]], of: tuple[str, bool], kinds: tuple[str, ...], fanout: int
) -> None:
    played = Played(*of, kinds, fanout)
    play = {
        "append": played.append,
        "read": played.read,
        "commit": played.commit,
        "rebase": played.rebase,
        "restart": played.restart,
        "compact": played.compact,
        "leave_out": played.leave_out,
    }
    for what, how in steps:
        play[what](how)  # type: ignore[operator]
        played.check()


def test_segments_stay_few_while_no_commit_arrives_and_commits_may_then_end_anywhere() -> None:
    played = Played("sales", around=True, kinds=("minutes", "shops"), fanout=2)
    for number in range(40):
        played.append([(number % 8, number % PARTITIONS)])
        played.read(0)
        assert len(played.hot.segments) <= 6, "each level has fewer segments than its fanout"
    played.check()
    assert played.hot.nbytes == sum(segment.nbytes for segment in played.hot.segments)
    for shares in ([1, 3], [2, 1], [1, 1], [3, 2], [1, 2], [4, 4]):
        played.commit(shares)
        played.rebase()
        played.check()
    assert played.committed == played.end
    assert played.compared > 4
    assert played.hot.segments == ()


def test_a_view_that_was_left_out_counts_none_behind_the_first_that_lacks_it() -> None:
    played = Played("sales", around=True, kinds=("minutes", "shops"), fanout=2)
    ends = []
    for places in ([], [1], [1], []):
        played.leave_out(places)
        played.append([(len(ends), 0)])
        played.read(0)
        played.check()
        ends.append(played.end)
    assert [{*one.partials} for one in played.served] == [{"minutes", "shops"}, {"minutes"}, {"minutes", "shops"}], (
        "two are merged"
    )
    assert played.stood == {"minutes": ends[3], "shops": ends[0]}
    for shares, shops in (([1, 0], ends[0]), ([2, 0], ends[1]), ([4, 0], ends[3])):
        played.commit(shares)
        played.rebase()
        played.check()
        assert played.stood == {"minutes": ends[3], "shops": shops}


def test_a_merged_segment_keeps_the_identities_of_all_its_parts() -> None:
    """A duplicate of its first part is still found when commits divide a later segment, which is then folded again."""
    played = Played("sales", around=True, kinds=("shops",), fanout=2)
    for numbers in ([1], [2], [3, 1]):
        played.append([(number, 0) for number in numbers])
        played.read(0)
    assert [segment.records.num_rows for segment in played.hot.segments] == [2, 2]
    played.commit([3, 0])
    played.rebase()
    played.check()
    assert played.hot.commits[0].counts.duplicates == 1


def test_a_large_segment_is_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commits may end inside it, and the records above them are then folded again."""
    monkeypatch.setattr(hot_tail, "_SMALL", 4)
    played = Played("bare", around=False, kinds=("minutes",), fanout=2)
    for number in range(32):
        played.append([(number % 8, 0)])
        played.read(0)
    assert [segment.records.num_rows for segment in played.hot.segments] == [4] * 8
    played.check()
