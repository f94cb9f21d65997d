"""Compare the answers of the live release and of another one, view by view, as both answer now.

Each side is read once, at its own position. Where these differ, both are read once more at the newest position at which both have
a commit's end. Both then count the same events, so a later event of one side cannot explain what still differs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from tandem.ledger.log.counts import Counts, plus
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.label_counts import counted_by_one, more_events
from tandem.ledger.united_positions import unite
from tandem.serving.read.merged_layers import Reader, UnknownView
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.selection import ALWAYS, parse_keys, select
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.touched_rows import split
from tandem.views.errors import listed
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.verify.compare import answers_of_rows
from tandem.views.verify.release_diff import Diff, diff_of_answers
from tandem.views.verify.row_diff import RowDifference, differing_rows, row_names
from tandem.views.verify.row_reasons import DiffGrounds, RowReasons, grounds
from tandem.views.view import View


class ReasonedRow(NamedTuple):
    """A row that differs, and why."""

    difference: RowDifference
    why: RowReasons


@dataclass(frozen=True)
class ViewComparison:
    """How the answers of a view differ: the totals, and the rows that differ, the worst first (tandem.views.verify.row_diff).

    `common` is the newest position that both sides have counted to; None without one.
    """

    view: str
    live: Provenance
    other: Provenance
    common: Position | None
    totals: Diff
    rows: tuple[ReasonedRow, ...] = field(repr=False)


class _ReadSide(NamedTuple):
    """A release at one position: its answers with the states that decide how far apart they are, and the source's counts there.

    `touched`: which rows have events of the speed layer; None where that is not recorded.
    """

    view: View
    answers: pa.Table
    touched: pa.ChunkedArray | None
    provenance: Provenance
    below: Counts
    tail: RealtimeTail

    @property
    def counts(self) -> Counts:
        """The counts of all records up to the position."""
        return plus(self.below, self.tail.counts)


@dataclass(frozen=True)
class ReleaseComparison:
    """Two readers, each at its pinned snapshot: of the live release and of another one."""

    live: Reader
    other: Reader

    def views(self) -> tuple[str, ...]:
        """The views that both have, in the order of the other release. Raises ReadFailed, Unreadable."""
        return tuple(name for name in self.other.project().every_view if name in self.live.project().every_view)

    def of(self, name: str, keys: Sequence[str] = ()) -> ViewComparison:
        """How a view differs, for rows with these keys, as `query --key` takes them.

        Raises UnknownView for a view that one of both does not have, ReadFailed and Unreadable.
        """
        old, new = self._view(name)
        snapshots = self.live.snapshot(), self.other.snapshot()
        tails = [snapshot.tail(view) for snapshot, view in zip(snapshots, (old, new), strict=True)]
        common = last_common(*tails) if old.source.name == new.source.name else None
        now = self._sides(snapshots, (old, new), keys)
        totals = diff_of_answers(old, new, now[0].answers, now[1].answers)
        rows = differing_rows(old, new, now[0].answers, now[1].answers)
        comparison = ViewComparison(name, now[0].provenance, now[1].provenance, common, totals, ())
        if not rows:
            return comparison
        if common is None:
            unsplit = DiffGrounds(fingerprint(old) != fingerprint(new), {}, 0, same_records=True)
            reasoned = [ReasonedRow(row, unsplit.later(row, None, duplicates=_has_duplicates(tails, None))) for row in rows]
        elif all(tail.end == common for tail in tails):
            reasoned = list(_explain(now, rows))
        else:
            ends = [snapshot.up_to(view, common) for snapshot, view in zip(snapshots, (old, new), strict=True)]
            then = self._sides(ends, (old, new), keys)
            differed = _explain(then, differing_rows(old, new, then[0].answers, then[1].answers))
            before = {row.difference.name: row for row in differed}
            why, duplicates = _grounds(then), _has_duplicates(tails, common)
            reasoned = [ReasonedRow(row, why.later(row, before.get(row.name), duplicates=duplicates)) for row in rows]
        return ViewComparison(name, now[0].provenance, now[1].provenance, common, totals, tuple(reasoned))

    def _view(self, name: str) -> tuple[View, View]:
        sides = [self.live.project().every_view, self.other.project().every_view]
        if all(name in views for views in sides):
            return sides[0][name], sides[1][name]
        release, live = (reader.snapshot().publication.release for reader in (self.other, self.live))
        there = [f"release {number}" for number, views in zip((live, release), sides, strict=True) if name in views]
        where = f"view {name!r} is only in {there[0]}" if there else f"no view {name!r}"
        both = self.views()
        raise UnknownView(f"{where}; views of both releases {live} and {release}: {listed(name, both) if both else 'none'}")

    def _sides(self, snapshots: Sequence[Snapshot], views: Sequence[View], keys: Sequence[str]) -> tuple[_ReadSide, _ReadSide]:
        live, other = (
            _side(reader, snapshot, view, keys)
            for reader, snapshot, view in zip((self.live, self.other), snapshots, views, strict=True)
        )
        return live, other


def last_common(tail: RealtimeTail, other: RealtimeTail) -> Position | None:
    """The newest position at which a commit of each tail ends, or at which its batch ends; None without one."""
    if tail.parts:
        ends_of = {name: last_common(part, other.parts[name]) for name, part in tail.parts.items()}
        whole = {name: end for name, end in ends_of.items() if end is not None}
        return unite(whole) if len(whole) == len(ends_of) else None
    ends = {tail.cut, *(commit.end for commit in tail.every)}
    return next((end for end in (*(commit.end for commit in reversed(other.every)), other.cut) if end in ends), None)


def _side(reader: Reader, snapshot: Snapshot, view: View, keys: Sequence[str]) -> _ReadSide:
    arranged = reader.arranged_at(snapshot, view, select(view, parse_keys(view, keys), ALWAYS))
    if isinstance(arranged, Failed):
        raise ReadFailed(arranged.reason)
    rows, touched = split(arranged.states)
    below, tail = snapshot.below(view.source.name), snapshot.tail(view)
    return _ReadSide(view, answers_of_rows(view, rows), touched, arranged.provenance, below, tail)


def _explain(sides: tuple[_ReadSide, _ReadSide], rows: Sequence[RowDifference]) -> Iterator[ReasonedRow]:
    """Rows that differ at a position that both sides have counted to, with their reasons."""
    why = _grounds(sides)
    # Without duplicates it does not matter.
    touched = [_names_in_speed(side) if why.copies else frozenset[str]() for side in sides]
    for row in rows:
        yield ReasonedRow(row, why.of(row, touched=any(names is None or row.name in names for names in touched)))


def _names_in_speed(side: _ReadSide) -> frozenset[str] | None:
    """The names of the rows that have events of the speed layer; None: any may have some."""
    if side.tail.end == side.tail.cut:
        return frozenset()
    return None if side.touched is None else frozenset(row_names(side.view, side.answers.filter(side.touched)))


def _grounds(sides: tuple[_ReadSide, _ReadSide]) -> DiffGrounds:
    """What can make rows differ at a position that both sides have counted to."""
    old, new = (side.view for side in sides)
    counts = [side.counts for side in sides]
    decoded_alike = decoder_fingerprint(old.source) == decoder_fingerprint(new.source)
    beyond = more_events(*counts) if decoded_alike else None
    dropped = Counts(duplicates=max(each.duplicates for each in counts), conflicts=max(each.conflicts for each in counts))
    if decoded_alike and (below := _below_both(sides)) is not None:
        # Below both cuts both count what batch counts.
        dropped = Counts(duplicates=dropped.duplicates - below.duplicates, conflicts=dropped.conflicts - below.conflicts)
    # Above both cuts each side may drop a duplicate that the other counts.
    above = min(sum(commit.counts.duplicates for commit in side.tail.every) for side in sides)
    return grounds(
        old,
        new,
        (sides[0].answers, sides[1].answers),
        (sides[0].provenance.rejected, sides[1].provenance.rejected),
        copies=counted_by_one(new, dropped, beyond=beyond) + 2 * above,
        same_records=not decoded_alike or beyond is not None,
    )


def _below_both(sides: Sequence[_ReadSide]) -> Counts | None:
    """The counts below the lower one of two cuts; None where neither is lower on every partition."""
    for side, other in (sides, sides[::-1]):
        if side.tail.cut.at_or_below(other.tail.cut):
            return side.below
    return None


def _has_duplicates(tails: Sequence[RealtimeTail], common: Position | None) -> bool:
    """Whether the speed layer of a side dropped duplicates after the common position."""
    later = (commit for tail in tails for commit in tail.every if common is None or not commit.end.at_or_below(common))
    return any(commit.counts.duplicates for commit in later)
