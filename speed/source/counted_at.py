"""When each stretch of the log was counted, by commits and archive runs: for restarts and replays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final

from ledger.delta.addresses import Tables
from ledger.log import archive
from ledger.log.archive import ArchiveRun
from ledger.log.positions import LOG_START, Position, lower, ranges
from ledger.publish import publications
from ledger.publish.releases import Release
from ledger.realtime.commits import Commit
from ledger.realtime.compaction import in_order
from ledger.realtime.follower import Follower
from views.source.offset_ranges import Offsets

_ASKED: Final = timedelta(minutes=1)
"""How long before its run is recorded the archive may have asked for the log's end."""


@dataclass(frozen=True)
class Stretch:
    """`[start, end)` of the log, counted by one commit at `at`, or archived by then where no commit is known.

    `newest` is the newest timestamp of its events, None without events; `at` where nobody knows. All that the log had received
    until `caught_up` lies below `end`; None where nobody knows.
    """

    start: Position
    end: Position
    at: datetime
    newest: datetime | None = None
    caught_up: datetime | None = None


@dataclass(frozen=True)
class Counted:
    """The log below a position as stretches in order, whose times never descend.

    `caught_up` and `newest` are what the last commit below it left: see `speed.dedup_window.Horizon`.
    """

    stretches: tuple[Stretch, ...] = ()
    caught_up: datetime | None = None
    newest: datetime | None = None

    def within(self, horizon: timedelta) -> tuple[Stretch, ...]:
        """The stretches whose identities a source with this horizon may still need, from the first such on."""
        for number, one in enumerate(self.stretches):
            stamped = self.newest is not None and one.newest is not None and min(one.newest, one.at) >= self.newest - horizon
            if stamped or self.caught_up is None or one.at >= self.caught_up - horizon:
                return self.stretches[number:]
        return ()


def counted(tables: Tables, release: Release, source: str, end: Position, *, now: datetime) -> Counted:
    """What the ledger says of a source's log below `end`, which the release has counted, or begins at. Raises Unreadable.

    A release that has not counted anything yet goes by the commits of the live one.
    """
    commits: Sequence[Commit] = Follower(tables, release.number, source).poll()
    live = publications.latest(tables)
    if all(commit.mark for commit in commits) and live is not None:
        commits = Follower(tables, live.release, source).poll()
    summaries = archive.summaries(tables, source, release.sources[source])
    return of_ledger(commits, archive.runs(tables, source), {each.run: each.newest for each in summaries}, end, now=now)


def of_ledger(
    commits: Iterable[Commit], runs: Iterable[ArchiveRun], newest: Mapping[int, datetime | None], end: Position, *, now: datetime
) -> Counted:
    """The same of commits and runs; `newest` has the newest timestamps of runs that are decoded.

    Commits say when they counted. What lies before them is as old as the first run that archived it, or the first commit
    after it; what neither has counts as counted `now`.
    """
    own = [commit for commit in in_order(commits) if not commit.mark and commit.end.at_or_below(end)]
    found = list(_archived(runs, newest, own[0].start if own else end))
    for commit in own:
        reached = found[-1].end if found else LOG_START
        at = commit.at or now
        if commit.start != reached:
            found.append(Stretch(reached, commit.start, at, at))
        # A bridge has a time, but whoever made it has not looked at the events that it goes past.
        newest_of = commit.newest if commit.kind == "fold" else at
        found.append(Stretch(commit.start, commit.end, at, newest_of, commit.caught_up))
    reached = found[-1].end if found else LOG_START
    if reached != end:
        found.append(Stretch(reached, end, now, now))
    times = list(accumulate((_least(one, own) for one in found), max))
    folds = [commit for commit in own if commit.kind == "fold"]
    return Counted(
        tuple(replace(one, at=at) for one, at in zip(found, times, strict=True)),
        caught_up=next((one.caught_up for one in reversed(found) if one.caught_up), None),
        newest=max((min(one.newest, one.at) for one in folds if one.newest and one.at), default=None),
    )


def divided(stretches: Iterable[Stretch], firsts: Offsets, *, most: int) -> Iterator[Stretch]:
    """The same log in stretches of at most about `most` offsets each, on which all partitions advance alike.

    `firsts` are the first offsets of partitions, where they are not 0. Of a stretch that is divided, only the last part says
    when the log was caught up.
    """
    for one in stretches:
        ends = list(evenly(one.start, one.end, firsts, most=most)) or [one.end]
        for start, end in zip([one.start, *ends[:-1]], ends, strict=True):
            yield replace(one, start=start, end=end, caught_up=one.caught_up if end == one.end else None)


def together(stretches: Iterable[Stretch], firsts: Offsets, *, most: int) -> Iterator[tuple[Stretch, ...]]:
    """Neighbouring stretches in groups of at most `most` offsets, or of one; a stretch without offsets is never alone."""
    group: list[Stretch] = []
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
        if position != reached:  # several partitions of a few records each may have to wait for the next step together
            reached = position
            yield Position.of(position)


def _archived(runs: Iterable[ArchiveRun], newest: Mapping[int, datetime | None], end: Position) -> Iterator[Stretch]:
    reached = LOG_START
    for run in runs:
        to = lower(run.end, end)
        if to != reached:
            # What an import brought was received when and by whom nobody here knows.
            caught_up = None if run.imported or to != run.end else run.at - _ASKED
            yield Stretch(reached, to, run.at, newest.get(run.number, run.at), caught_up)
            reached = to


def _least(one: Stretch, own: Sequence[Commit]) -> datetime:
    """The stretch's time: what lies before the first commit was received before it was made."""
    first = own[0] if own else None
    before = first is not None and first.at is not None and one.end.at_or_below(first.start)
    return min(one.at, first.at) if before and first is not None and first.at is not None else one.at
