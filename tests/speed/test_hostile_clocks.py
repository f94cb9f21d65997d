"""For any timestamps and any clock of the layer: duplicates received within the dedup window are recognized.

The law of docs/design/duplicates.md against plain Python: no numpy, no runs, no eviction by levels.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, cast

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.ledger.log.archive_runs import ArchiveRun
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.compaction import expired, merged, plan
from tandem.speed.dedup.dedup_window import DedupWindow, recalled
from tandem.speed.dedup.keys import KEY, Keys
from tandem.speed.dedup.within_task import Identities
from tandem.speed.micro_batch.log_tail import PolledEnd, PolledEnds
from tandem.speed.source.counted_at import CountedLog, CountedRange, divided, of_ledger, together
from tandem.views.instant import microseconds

SECOND = 1_000_000
SPAN = 600 * SECOND
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
BEGIN = microseconds(START)
HOUR, DAY = 3600, 86_400

# Producers: right, ten minutes slow, event time of long ago, an hour ahead, what a broker without a bound takes.
OFF = (0, 0, 0, -600, -HOUR, HOUR, 50 * 60, -40 * DAY, 40 * DAY)
"""By how many seconds a timestamp may be wrong."""


def keys(numbers: Iterable[int]) -> Keys:
    """Keys of which all have the same first word: what the dedup window decides, it decides by the others."""
    return np.frombuffer(b"".join(number.to_bytes(16, "big") + b"content." for number in numbers), np.uint64).reshape(-1, KEY)


def stamped(events: Sequence[tuple[int, int]]) -> Identities:
    return Identities(keys(number for number, _ in events), np.array([stamp for _, stamp in events], np.int64))


@dataclass
class Plain:
    """The law in a few lines: what each identity was counted at, and stamped."""

    counted: dict[int, tuple[int, int]] = field(default_factory=dict)
    caught_up: int | None = None
    newest_stamp: int = -(2**62)

    def extend(self, events: Sequence[tuple[int, int]], at: int, caught_up: int | None) -> None:
        """A commit at some time; all that the log had received until `caught_up` is counted, which nobody knows if it is None."""
        if caught_up is not None:
            self.caught_up = caught_up if self.caught_up is None else max(self.caught_up, caught_up)
        for number, stamp in events:
            self.newest_stamp = max(self.newest_stamp, min(stamp, at))
            self.counted[number] = at, min(stamp, at)

    def kept(self) -> list[int]:
        """Within the dedup window of the newest of its kind: commit, which is until when all is counted, or timestamp."""
        return [
            number
            for number, (at, stamp) in self.counted.items()
            if self.caught_up is None or at >= self.caught_up - SPAN or stamp >= self.newest_stamp - SPAN
        ]


batches = st.lists(
    st.tuples(
        st.lists(st.sampled_from(OFF), max_size=6),  # events, by how wrong their timestamps are
        st.sampled_from((0, 1, 60, 300, 599, 601, HOUR, 5 * HOUR)),  # seconds since the commit before
        st.sampled_from((0, 0, 0, 0, -HOUR, -30, HOUR)),  # by how much the layer's clock is wrong
        st.booleans(),  # whether the layer reached the log's end
    ),
    max_size=30,
)


@example(  # an event that is stamped long ago, and a later one that is not, while nobody knows how much of the log is counted
    [([-HOUR], 0, 0, False), ([0], 5 * HOUR, 0, False)]
)
@example([([-HOUR], 0, 0, True), ([0], 5 * HOUR, 0, False)])  # the same, and the layer has lagged ever since
@given(batches)
def test_identities_that_the_rule_keeps_are_kept(drawn: list[tuple[list[int], int, int, bool]]) -> None:
    """Each identity is new; the plain model says which are kept, whatever the clocks of producers and layer say."""
    dedup_window, plain, now, number, caught_up = DedupWindow(SPAN), Plain(), BEGIN, 0, None
    for commits, (wrong, pause, clock, drained) in enumerate(drawn):
        assert dedup_window.base + len(dedup_window.times) == commits, "commits are numbered from 0 on"
        now += pause * SECOND
        at = now + clock * SECOND
        events = [(number + place, now + off * SECOND) for place, off in enumerate(wrong)]
        number += len(events)
        caught_up = at if drained else caught_up
        dedup_window = dedup_window.extended(stamped(events), at=at, caught_up=caught_up)
        plain.extend(events, at, caught_up)
        assert dedup_window.holds(keys(plain.kept())).all()


def moment(micros: int) -> datetime:
    return START + timedelta(microseconds=micros - BEGIN)


def place(offset: int) -> Position:
    return Position.of({("T", 0): offset})


def compact(commits: list[Commit]) -> None:
    for group in cast("list[tuple[Commit, ...]]", plan(commits, live=LOG_START, fanout=2)):
        first = commits.index(group[0])
        commits[first : first + len(group)] = [merged(group, lambda _, partials: b"".join(partials))]


def dedup_window_of(known: CountedLog, stretches: Sequence[CountedRange]) -> DedupWindow:
    """What `tandem.speed.source.restore_identities` begins with."""
    return recalled(
        SPAN,
        None,
        times=[microseconds(one.at) for one in stretches],
        caught_up=None if known.caught_up is None else microseconds(known.caught_up),
        newest=None if known.newest is None else microseconds(known.newest),
    )


@dataclass
class Layer:
    """A layer in true time: what arrives, in how large micro-batches it is counted, and when it restarts or compacts."""

    log: list[tuple[int, int]] = field(default_factory=list)
    arrived: dict[int, int] = field(default_factory=dict)
    dedup_window: DedupWindow = field(default_factory=lambda: DedupWindow(SPAN))
    ends: PolledEnds = field(default_factory=PolledEnds)
    caught_up: datetime | None = None
    reached: int = 0
    counts: dict[int, list[int]] = field(default_factory=dict)
    """Of each event counted, when the log had received it."""
    received: list[int] = field(default_factory=list)
    commits: list[Commit] = field(default_factory=list)

    def receive(self, number: int, at: int, off: int) -> None:
        self.log.append((number, at + off * SECOND))
        self.received.append(at)

    def commit(self, at: int, most: int) -> None:
        """One micro-batch."""
        batch = list(enumerate(self.log[self.reached : self.reached + most], self.reached))
        numbers = [number for _, (number, _) in batch]
        fresh = {number for number, held in zip(numbers, self.holds(numbers), strict=True) if not held}
        added = []
        for where, (number, stamp) in batch:
            if number in fresh:
                fresh.remove(number)
                self.counts.setdefault(number, []).append(self.received[where])
                added.append((number, stamp))
        self.reached += len(batch)
        self.caught_up = self.ends.caught_up(PolledEnd(moment(at), place(len(self.log))), place(self.reached)) or self.caught_up
        known = None if self.caught_up is None else microseconds(self.caught_up)
        self.dedup_window = self.dedup_window.extended(stamped(added), at=at, caught_up=known)
        if batch:
            newest = max((moment(stamp) for _, stamp in added), default=None)
            start = self.commits[-1].end if self.commits else LOG_START
            told: dict[str, Any] = {"at": moment(at), "newest": newest, "caught_up": self.caught_up}
            self.commits.append(Commit(start, place(self.reached), 1, "fold", **told))

    def compact(self) -> None:
        compact(self.commits)

    def restart(self, now: int) -> None:
        """Another process, which knows what is stored."""
        known = of_ledger(self.commits, [], {}, place(self.reached), now=moment(now))
        stretches = known.within(timedelta(microseconds=SPAN))
        self.ends, self.caught_up, self.dedup_window = PolledEnds(), known.caught_up, dedup_window_of(known, stretches)
        for number, one in enumerate(stretches):
            there = self.log[one.start.get(("T", 0), 0) : one.end["T", 0]]
            self.dedup_window = self.dedup_window.with_identities(stamped(there), np.full(len(there), number, np.int32))

    def holds(self, numbers: Sequence[int]) -> list[bool]:
        return self.dedup_window.holds(keys(numbers)).tolist() if numbers else []


steps = st.lists(
    st.one_of(
        st.tuples(st.just("receive"), st.integers(0, 5), st.sampled_from(OFF)),
        st.tuples(st.just("wait"), st.sampled_from((1, 200, 550, 599, 700, 7 * HOUR)), st.just(0)),
        st.tuples(st.just("commit"), st.integers(1, 4), st.just(0)),
        st.tuples(st.sampled_from(("restart", "compact")), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@example(  # the layer stood still, and catches up by two micro-batches: the first has a record that is stamped ahead
    [
        ("receive", 0, 0), ("commit", 1, 0), ("wait", 60, 0), ("receive", 1, 50 * 60), ("receive", 0, 0),
        ("wait", 7 * HOUR, 0), ("commit", 1, 0), ("commit", 1, 0),
    ]
)  # fmt: skip
@example(  # the same, but another process catches up, and both timestamps are of long ago
    [
        ("receive", 0, -HOUR), ("commit", 1, 0), ("wait", 60, 0), ("receive", 1, 0), ("receive", 0, -HOUR),
        ("wait", 7 * HOUR, 0), ("commit", 1, 0), ("restart", 0, 0), ("commit", 1, 0),
    ]
)  # fmt: skip
@example(  # compaction makes one commit of an old one and a young one
    [
        ("receive", 0, 0), ("commit", 1, 0), ("wait", 599, 0), ("receive", 1, -HOUR), ("commit", 1, 0), ("compact", 0, 0),
        ("wait", 200, 0), ("receive", 2, 0), ("commit", 1, 0), ("restart", 0, 0), ("receive", 1, 0), ("commit", 1, 0),
    ]
)  # fmt: skip
@given(steps)
def test_a_duplicate_received_within_the_dedup_window_never_counts(drawn: list[tuple[str, int, int]]) -> None:
    """However late the layer is, and whatever is stamped: two events of one identity that count lie further apart."""
    layer, now = Layer(), BEGIN
    for what, number, off in drawn:
        now += SECOND
        if what == "receive":
            layer.receive(number, now, off)
        elif what == "commit":
            layer.commit(now, number)
        elif what == "restart":
            layer.restart(now)
        elif what == "compact":
            layer.compact()
        else:
            now += number * SECOND
    layer.commit(now + SECOND, len(layer.log))
    for times in layer.counts.values():
        assert all(later - earlier > SPAN for earlier, later in pairwise(times))


@given(batches, st.integers(2, 30))
def test_memory_is_bounded_and_the_oldest_identities_are_evicted(
    drawn: list[tuple[list[int], int, int, bool]], most: int
) -> None:
    """What the law keeps of the commits since `since` is held; there are at most `most` identities, or one commit's."""
    dedup_window, plain, now, number, commits, last = DedupWindow(SPAN, most), Plain(), BEGIN, 0, [], 0
    for wrong, pause, clock, _ in drawn:
        now += pause * SECOND
        at = now + clock * SECOND
        events = [(number + place, now + off * SECOND) for place, off in enumerate(wrong)]
        number += len(events)
        dedup_window = dedup_window.extended(stamped(events), at=at, caught_up=at)
        plain.extend(events, at, at)
        commits.append((max([at, *(time for time, _ in commits)]), {of for of, _ in events}))
        last = len(events) or last
        assert dedup_window.size <= max(most, last)
        since = dedup_window.since
        young = [of for of in plain.kept() if since is None or any(of in those and time > since for time, those in commits)]
        assert dedup_window.holds(keys(young)).all()
        if since is None:
            assert dedup_window.holds(keys(plain.kept())).all()
        else:
            assert dedup_window.size < len(plain.counted)


@dataclass
class Ledger:
    """Commits and runs over a log of two partitions, each event with its partition and offset."""

    commits: list[Commit] = field(default_factory=list)
    runs: list[ArchiveRun] = field(default_factory=list)
    newest: dict[int, datetime | None] = field(default_factory=dict)
    places: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """Of each identity its partition, offset and timestamp."""

    @property
    def end(self) -> Position:
        return self.commits[-1].end if self.commits else LOG_START

    def commit(self, wrong: Sequence[int], now: int, made: int, *, bridge: bool) -> list[tuple[int, int]]:
        """A commit of events with these wrong timestamps, by turns in both partitions; it always ends at the log's end."""
        ends, events = dict(self.end.items()), []
        for off in wrong:
            number = len(self.places)
            partition = number % 2
            offset = ends.get(("T", partition), 0)
            ends["T", partition] = offset + 1
            self.places[number] = partition, offset, now + off * SECOND
            events.append((number, now + off * SECOND))
        if events:
            newest = moment(max(stamp for _, stamp in events))
            told: dict[str, Any] = {} if bridge else {"newest": newest, "caught_up": moment(made)}
            self.commits.append(Commit(self.end, Position.of(ends), 1, "bridge" if bridge else "fold", at=moment(made), **told))
        return events

    def archive(self, now: int) -> None:
        start = self.runs[-1].end if self.runs else LOG_START
        if start != self.end:
            number = len(self.runs) + 1
            self.runs.append(ArchiveRun(number, start, self.end, {}, moment(now), "archive"))
            within = [moment(stamp) for p, offset, stamp in self.places.values() if start.get(("T", p), 0) <= offset]
            self.newest[number] = max(within, default=None)

    def tend(self, cut: int) -> None:
        """Compact; let go what lies below a cut that is archived."""
        compact(self.commits)
        below = self.runs[min(cut, len(self.runs)) - 1].end if self.runs else LOG_START
        gone = expired(self.commits, [below])
        self.commits = [one for one in self.commits if one not in gone]

    def recalled(self, now: int, most: int) -> DedupWindow:
        """What a layer loads that starts now: `tandem.speed.source.restore_identities` without Spark."""
        known = of_ledger(self.commits, self.runs, self.newest, self.end, now=moment(now))
        stretches = list(divided(known.within(timedelta(microseconds=SPAN)), {}, most=most))
        found = dedup_window_of(known, stretches)
        for number, one in enumerate(stretches):
            there = [(of, stamp) for of, (p, o, stamp) in self.places.items() if lies(one, p, o)]
            found = found.with_identities(stamped(there), np.full(len(there), number, np.int32))
        return found


def lies(one: CountedRange, partition: int, offset: int) -> bool:
    return one.start.get(("T", partition), 0) <= offset < one.end.get(("T", partition), 0)


schedules = st.lists(
    st.tuples(
        st.sampled_from(("fold", "fold", "fold", "fold", "bridge", "archive", "tend", "restart")),
        st.lists(st.sampled_from(OFF), max_size=4),
        st.sampled_from((0, 1, 60, 300, 599, 601, HOUR, 5 * HOUR)),
        st.sampled_from((0, 0, 0, -HOUR, -30, HOUR)),
    ),
    max_size=30,
)


@example(  # the newest timestamp is that of a record stamped ahead, which counts as its commit's; all later ones are of long ago
    [("fold", [HOUR], 0, 0), ("fold", [-40 * DAY], 5 * HOUR, 0), ("restart", [], 0, 0)], 5
)
@given(schedules, st.integers(1, 5))
def test_a_restart_loads_the_identities_that_the_rule_keeps(drawn: list[tuple[str, list[int], int, int]], most: int) -> None:
    """Over compaction, commits that are gone, bridges and clocks that are set back: by positions of commits and runs alone."""
    ledger, plain, now, dedup_window = Ledger(), Plain(), BEGIN, DedupWindow(SPAN)
    for what, wrong, pause, clock in drawn:
        now += pause * SECOND
        made = now + clock * SECOND
        if what == "archive":
            ledger.archive(now)
        elif what == "tend":
            ledger.tend(len(wrong))
        elif what in ("fold", "bridge"):
            events = ledger.commit(wrong, now, made, bridge=what == "bridge")
            if what == "fold":
                dedup_window = dedup_window.extended(stamped(events), at=made, caught_up=made)
                plain.extend(events, made, made)
            else:
                # What a bridge went past was counted by a batch; the law speaks of commits, of which it is one.
                plain.counted |= {number: (made, min(stamp, made)) for number, stamp in events}
                dedup_window = ledger.recalled(made, most)
        if what == "restart":
            dedup_window = ledger.recalled(now, most)
        assert dedup_window.holds(keys(plain.kept())).all()


@given(schedules, st.integers(1, 7))
def test_stretches_tile_the_counted_log(drawn: list[tuple[str, list[int], int, int]], most: int) -> None:
    """However they are divided and grouped; the times never descend."""
    ledger, now = Ledger(), BEGIN
    for what, wrong, pause, clock in drawn:
        now += pause * SECOND
        if what == "archive":
            ledger.archive(now)
        elif what == "tend":
            ledger.tend(len(wrong))
        else:
            ledger.commit(wrong, now, now + clock * SECOND, bridge=what == "bridge")
    known = of_ledger(ledger.commits, ledger.runs, ledger.newest, ledger.end, now=moment(now))
    groups = list(together(divided(known.stretches, {}, most=most), {}, most=most))
    flat = [one for group in groups for one in group]
    assert [one.start for one in flat] == [LOG_START, *(one.end for one in flat)][: len(flat)]
    assert (flat[-1].end if flat else LOG_START) == ledger.end
    assert all(one.at <= other.at for one, other in pairwise(flat))
    for group in groups:
        assert ranges(group[0].start, group[-1].end).length <= most + 2


@given(schedules)
def test_the_time_of_a_stretch_comes_from_the_ledger(drawn: list[tuple[str, list[int], int, int]]) -> None:
    """A commit's as the commit; what came before all commits as the first of them at most, whoever archived it later."""
    ledger, now = Ledger(), BEGIN
    for what, wrong, pause, clock in drawn:
        now += pause * SECOND
        if what == "archive":
            ledger.archive(now)
        elif what == "tend":
            ledger.tend(len(wrong))
        else:
            ledger.commit(wrong, now, now + clock * SECOND, bridge=what == "bridge")
    later = moment(now) + timedelta(days=1)
    reached = moment(0)
    first = ledger.commits[0] if ledger.commits else None
    made = {(one.start, one.end): one.at for one in ledger.commits}
    archived = [(run.end, run.at) for run in ledger.runs]
    for one in of_ledger(ledger.commits, ledger.runs, ledger.newest, ledger.end, now=later).stretches:
        # The first run that has all of it.
        by_run = next((at for end, at in archived if one.end.at_or_below(end)), later)
        at = made.get((one.start, one.end)) or by_run
        if first is not None and one.end.at_or_below(first.start):
            at = min(at, first.at)
        reached = max(reached, at)
        assert one.at == reached


def test_only_runs_of_this_installation_know_when_the_log_was_caught_up() -> None:
    """Up to a minute before it was recorded, and only if all of it lies below the position."""
    copied = ArchiveRun(1, LOG_START, place(9), {}, START, "archive")
    minute = timedelta(minutes=1)
    assert of_ledger([], [copied], {}, place(9), now=START).caught_up == START - minute
    assert of_ledger([], [copied], {}, place(8), now=START).caught_up is None
    assert of_ledger([], [replace(copied, by="import")], {}, place(9), now=START).caught_up is None


def test_a_bridge_has_no_timestamps_of_its_events() -> None:
    bridge = Commit(LOG_START, place(9), 1, "bridge", at=START)
    (stretch,) = of_ledger([bridge], [], {}, place(9), now=START + timedelta(hours=9)).stretches
    assert (stretch.at, stretch.newest, stretch.caught_up) == (START, START, None)


def test_a_stretch_is_kept_to_the_end_of_the_dedup_window() -> None:
    """By the time of its commit, and by its newest timestamp: at exactly the dedup window, not after it."""
    at = [START, START + timedelta(hours=1), START + timedelta(hours=2)]
    stretches = tuple(CountedRange(place(n), place(n + 1), each, each) for n, each in enumerate(at))
    hour, bit = timedelta(hours=1), timedelta(microseconds=1)
    for dedup_window, kept in ((hour, 2), (hour - bit, 1), (2 * hour, 3), (2 * hour - bit, 2)):
        assert CountedLog(stretches, at[2], at[2] + 9 * hour).within(dedup_window) == stretches[-kept:], "by commits alone"
        assert CountedLog(stretches, at[2] + 9 * hour, at[2]).within(dedup_window) == stretches[-kept:], "by timestamps alone"


def test_only_the_last_part_of_a_divided_stretch_is_caught_up() -> None:
    """Its parts are as many as its offsets need, of which those below the log's first offset are none."""
    whole = CountedRange(LOG_START, place(1010), START, START, caught_up=START)
    parts = list(divided([whole], {("T", 0): 1000}, most=5))
    assert [one.caught_up for one in parts] == [None, START]
    assert [(one.start, one.end) for one in parts] == [(LOG_START, place(1005)), (place(1005), place(1010))]
