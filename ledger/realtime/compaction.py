"""Which neighbouring commits become one, and what that one is. Pure functions.

Level-wise: a commit's level is the logarithm of its micro-batches to the base `fanout`, and neighbours become one only if
that lifts them a level. So a commit is rewritten at most once per level, and the table holds few files however long it
grows between two cuts.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar

from tandem.ledger.log.counts import add, plus
from tandem.ledger.log.last_records import newest_of
from tandem.ledger.log.positions import Position, distance
from tandem.ledger.realtime.commits import Commit, Span, TableEnds
from tandem.views.errors import TandemError
from tandem.views.source.watermark import later, newest

Merge = Callable[[str, Sequence[bytes]], bytes]
"""A view's fingerprint and partials of disjoint ranges as Arrow IPC bytes, to one partial's bytes."""

FANOUT: Final = 8
RECENT: Final = 2
"""Commits at a table's end that are not compacted: a reader that has not read them yet adds them to its state. A commit that
merged read and unread ones would force it to start again from the cut."""

SpanT = TypeVar("SpanT", bound=Span)


def plan(
    spans: Iterable[Span], *, live: Position, protect: Iterable[Position] = (), fanout: int = FANOUT, recent: int = 0
) -> list[tuple[Span, ...]]:
    """Plan which neighbouring commits become one: groups of them, usually none.

    No group crosses a reserved cut that `live`, the release's published cut, has not passed. Nor does it cross the largest
    boundary at or below each position of `protect` (retained cuts, the archive's end). Folds and bridges are never merged with
    each other. The `recent` last commits stay.
    """
    ordered = in_order(spans)
    reserved = [span for span in ordered if span.kind == "cut" and not span.start.at_or_below(live)]
    barriers = {_boundary_below(ordered, position) for position in (live, *protect, *(span.start for span in reserved))}
    movable = [span for span in ordered[: _older(ordered, recent)] if span not in reserved]
    return [group for segment in _segments(movable, barriers) for group in _groups(segment, fanout)]


def merged(commits: Sequence[Commit], merge: Merge) -> Commit:
    """Merge neighbouring commits, given in order, into one: same range, same contributions, the newest epoch.

    Its time is the latest of theirs, so that its identities are kept at least as long as theirs.
    """
    folds = [commit for commit in commits if not commit.mark]
    if not folds:
        return max(commits, key=lambda commit: commit.epoch)
    views = {frozenset(commit.partials) for commit in folds}
    if len(views) != 1:
        raise TandemError(f"the commits of [{folds[0].start}, {folds[-1].end}) have different views and cannot become one")
    return Commit(
        folds[0].start,
        folds[-1].end,
        max(commit.epoch for commit in commits),
        folds[0].kind,
        batches=sum(commit.batches for commit in folds),
        looked_up=_table_ends(folds),
        counts=plus(*(commit.counts for commit in folds)),
        rejected={
            view: add(*(commit.rejected.get(view, {}) for commit in folds))
            for view in folds[0].partials
            if any(commit.rejected.get(view) for commit in folds)
        },
        maxima=newest(commit.maxima for commit in folds),
        newest=max((commit.newest for commit in folds if commit.newest), default=None),
        watermark=later(*(commit.watermark for commit in folds)),
        after_final=add(*(commit.after_final for commit in folds)),
        partials={view: merge(view, [commit.partials[view] for commit in folds]) for view in folds[0].partials},
        at=max((commit.at for commit in folds if commit.at), default=None),
        by=folds[-1].by,
        caught_up=next((commit.caught_up for commit in reversed(folds) if commit.caught_up), None),
        identities_since=max((commit.identities_since for commit in folds if commit.identities_since), default=None),
        last_records=newest_of(commit.last_records for commit in folds),
    )


def _table_ends(folds: Sequence[Commit]) -> dict[str, TableEnds]:
    """Up to where the micro-batches of all these commits knew the tables; the ends of one table are all comparable."""
    nowhere, united = Position(), dict[str, TableEnds]()
    for source, ends in ((source, ends) for commit in folds for source, ends in commit.looked_up.items()):
        earlier = united.get(source, ends)
        by_distance = sorted([*earlier[:2], *ends[:2]], key=lambda end: distance(nowhere, end))
        united[source] = TableEnds(by_distance[0], by_distance[-1], min(earlier.publication, ends.publication))
    return united


def expired(spans: Iterable[Span], cuts: Iterable[Position]) -> list[Span]:
    """The commits that no reader of these retained cuts needs: those below all of the cuts.

    The commits at the table's end always stay: a new writer continues from their position and epoch.
    """
    ordered = in_order(spans)
    retained = list(cuts)
    if not retained or not ordered:
        return []
    end = ordered[-1].end
    return [span for span in ordered if span.end != end and all(span.end.at_or_below(cut) for cut in retained)]


def in_order(spans: Iterable[SpanT]) -> list[SpanT]:
    """The spans in log order; a mark precedes the commits that start at its position.

    Positions of one table are all comparable, so the sum of their offsets orders them.
    """
    nowhere = Position()
    return sorted(spans, key=lambda span: (distance(nowhere, span.start), distance(nowhere, span.end), span.epoch))


def _older(ordered: Sequence[Span], recent: int) -> int:
    """The number of spans before the last `recent` commits that are not marks."""
    if not recent:
        return len(ordered)
    commits = [place for place, span in enumerate(ordered) if not span.mark]
    return commits[-recent] if len(commits) >= recent else 0


def _boundary_below(spans: Iterable[Span], position: Position) -> Position | None:
    boundaries = (at for span in spans for at in (span.start, span.end) if at.at_or_below(position))
    return max(boundaries, key=lambda at: distance(Position(), at), default=None)


def _segments(ordered: Sequence[Span], barriers: set[Position | None]) -> list[list[Span]]:
    """Stretches of adjacent spans that hold folds or bridges, not both, and have barriers only at their ends.

    Marks stay with their neighbours, which keep the boundary that the mark is on.
    """
    segments: list[list[Span]] = []
    kind = None
    for span in ordered:
        own = None if span.mark else span.kind
        touches = bool(segments) and segments[-1][-1].end == span.start
        if not touches or (own and kind and (own != kind or span.start in barriers)):
            segments.append([])
            kind = None
        segments[-1].append(span)
        kind = own or kind
    return segments


def _groups(segment: Sequence[Span], fanout: int) -> list[tuple[Span, ...]]:
    """The groups, largest size first: a commit that joins a large group needs no smaller one."""
    total = sum(span.batches for span in segment)
    groups: list[tuple[Span, ...]] = []
    taken: set[int] = set()
    level = 1
    while fanout ** (level + 1) <= total:
        level += 1
    for size in (fanout**power for power in range(level, 0, -1)):
        run: list[int] = []
        for index, span in enumerate(segment):
            if index in taken or span.batches >= size:
                run = []
                continue
            run.append(index)
            if len(run) >= fanout and sum(segment[member].batches for member in run) >= size:
                groups.append(tuple(segment[member] for member in run))
                taken.update(run)
                run = []
    return groups
