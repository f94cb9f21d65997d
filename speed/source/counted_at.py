"""The time at which each stretch of the log was counted, by commits and archive runs: for restarts and replays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from tandem.infra import kafka
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger, ArchiveRun
from tandem.ledger.log.positions import LOG_START, Position, lower, ranges
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Release
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.compaction import in_order
from tandem.ledger.realtime.follower import Follower
from tandem.views.source.offset_ranges import Offsets

_ASKED: Final = timedelta(minutes=1)
"""The longest time between an archive run's poll of the log's end and the record of that run."""


@dataclass(frozen=True)
class CountedRange:
    """`[start, end)` of the log, counted by one commit at `at`, or archived by then if no commit is known.

    * `newest`: the newest timestamp of its events; None without events, `at` if it is unknown.
    * `caught_up`: all records that the log had received until then lie below `end`; None if it is unknown.
    """

    start: Position
    end: Position
    at: datetime
    newest: datetime | None = None
    caught_up: datetime | None = None


@dataclass(frozen=True)
class CountedLog:
    """The log below a position as stretches in order, whose times never descend.

    `caught_up` and `newest` are those of the last commit below it; see `tandem.speed.dedup.dedup_window.DedupWindow`.
    """

    stretches: tuple[CountedRange, ...] = ()
    caught_up: datetime | None = None
    newest: datetime | None = None

    def within(self, dedup_window: timedelta) -> tuple[CountedRange, ...]:
        """The stretches from the first one on whose identities a source with this dedup window may still need."""
        for number, one in enumerate(self.stretches):
            stamped = self.newest is not None and one.newest is not None and min(one.newest, one.at) >= self.newest - dedup_window
            if stamped or self.caught_up is None or one.at >= self.caught_up - dedup_window:
                return self.stretches[number:]
        return ()


def counted(tables: Tables, release: Release, source: str, end: Position, *, now: datetime) -> CountedLog:
    """The stretches of a source's log below `end`, up to which the release has counted, or where it begins. Raises Unreadable.

    For a release that has not counted anything yet, the commits of the live release decide.
    """
    commits: Sequence[Commit] = Follower(tables, release.number, source).poll()
    live = Publications(tables).latest()
    if all(commit.mark for commit in commits) and live is not None:
        commits = Follower(tables, live.release, source).poll()
    ledger = ArchiveLedger(tables, source)
    summaries = ledger.summaries(release.sources[source])
    return of_ledger(commits, ledger.runs(), {each.run: each.newest for each in summaries}, end, now=now)


def of_ledger(
    commits: Iterable[Commit], runs: Iterable[ArchiveRun], newest: Mapping[int, datetime | None], end: Position, *, now: datetime
) -> CountedLog:
    """The same from commits and runs; `newest` has the newest timestamps of decoded runs.

    A commit has the time at which it counted. A stretch before all commits has the time of the first run that archived it, or of
    the first commit after it. A stretch that neither has counts as counted `now`.
    """
    own = [commit for commit in in_order(commits) if not commit.mark and commit.end.at_or_below(end)]
    found = list(_archived(runs, newest, own[0].start if own else end))
    for commit in own:
        reached = found[-1].end if found else LOG_START
        at = commit.at or now
        if commit.start != reached:
            found.append(CountedRange(reached, commit.start, at, at))
        # A bridge has a time, but its maker has not read the events that it skips.
        newest_of = commit.newest if commit.kind == "fold" else at
        found.append(CountedRange(commit.start, commit.end, at, newest_of, commit.caught_up))
    reached = found[-1].end if found else LOG_START
    if reached != end:
        found.append(CountedRange(reached, end, now, now))
    times = list(accumulate((_least(one, own) for one in found), max))
    folds = [commit for commit in own if commit.kind == "fold"]
    return CountedLog(
        tuple(replace(one, at=at) for one, at in zip(found, times, strict=True)),
        caught_up=next((one.caught_up for one in reversed(found) if one.caught_up), None),
        newest=max((min(one.newest, one.at) for one in folds if one.newest and one.at), default=None),
    )


def divided(stretches: Iterable[CountedRange], firsts: Offsets, *, most: int) -> Iterator[CountedRange]:
    """The same log in stretches of at most about `most` offsets each, on which all partitions advance alike.

    `firsts` are the first offsets of partitions, if not 0. If a stretch is divided, only its last part has `caught_up`.
    """
    for one in stretches:
        ends = list(evenly(one.start, one.end, firsts, most=most)) or [one.end]
        for start, end in zip([one.start, *ends[:-1]], ends, strict=True):
            yield replace(one, start=start, end=end, caught_up=one.caught_up if end == one.end else None)


def together(stretches: Iterable[CountedRange], firsts: Offsets, *, most: int) -> Iterator[tuple[CountedRange, ...]]:
    """Neighbouring stretches in groups of at most `most` offsets, or of one; a stretch without offsets is never alone."""
    group: list[CountedRange] = []
    length = 0
    for one in stretches:
        further = ranges(one.start, one.end, firsts).length
        if length and length + further > most:
            yield tuple(group)
            group, length = [], 0
        group.append(one)
        length += further
    if group:
        yield tuple(group)


def evenly(start: Position, end: Position, firsts: Offsets, *, most: int) -> Iterator[Position]:
    """Positions from `start`, excluded, to `end`, about `most` offsets apart, on which all partitions advance alike."""
    reached = starts = {p: start.get(p, min(firsts.get(p, 0), offset)) for p, offset in end.items()}
    number = -(-sum(offset - starts[partition] for partition, offset in end.items()) // most)
    for step in range(1, number + 1):
        position = {p: starts[p] + (offset - starts[p]) * step // number for p, offset in end.items()}
        if position != reached:  # partitions with few records may all have to wait for the next step
            reached = position
            yield Position.of(position)


def _archived(runs: Iterable[ArchiveRun], newest: Mapping[int, datetime | None], end: Position) -> Iterator[CountedRange]:
    reached = LOG_START
    for run in runs:
        to = lower(run.end, end)
        if to != reached:
            # It is unknown when the records of an import were received, and by which broker.
            caught_up = None if run.imported or to != run.end else run.at - _ASKED
            yield CountedRange(reached, to, run.at, newest.get(run.number, run.at), caught_up)
            reached = to


def _least(one: CountedRange, own: Sequence[Commit]) -> datetime:
    """The stretch's time: records before the first commit were received before that commit."""
    first = own[0] if own else None
    before = first is not None and first.at is not None and one.end.at_or_below(first.start)
    return min(one.at, first.at) if before and first is not None and first.at is not None else one.at


def earlier_topic(stretches: Sequence[CountedRange], topics: Sequence[kafka.Topic], firsts: Offsets) -> str | None:
    """The id of a topic that stretches have offsets of, and that is not one of these topics; None without such a topic."""
    current = {topic.id for topic in topics}
    for one in stretches:
        for place, offset in one.end.items():
            if place[0] not in current and offset > one.start.get(place, firsts.get(place, 0)):
                return place[0]
    return None
