"""The hot tail of one source under one release, as segments: each is the commit that its range would be.

Pure: no I/O and no clock. The fold is the fold of a micro-batch, so a segment has the states of a commit over the same range.

Why a segment may stay while commits take the place of the ones before it: which events count in a range depends on the records
before the range, not on how commits divide these. Each identity counts once in `[base, end)`, for any base that a commit ends
at.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.log.counts import Counts, plus
from tandem.ledger.log.positions import Position
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.compaction import FANOUT, merged, plan
from tandem.speed.dedup.within_task import Identities
from tandem.speed.micro_batch.fold import fold_shares
from tandem.speed.micro_batch.follower_state import FollowerState, step
from tandem.speed.micro_batch.maintenance import merging
from tandem.speed.micro_batch.task import KnownVersions, Share, Task, share_of
from tandem.views.arrow.arrays import from_ipc
from tandem.views.source.source import Source
from tandem.views.source.watermark import later
from tandem.views.view import View

if TYPE_CHECKING:
    from tandem.views.source.offset_ranges import Partition

_OWN_BYTES: Final = 4096
"""About the bytes of a segment besides its records, partials and identities."""
_SMALL: Final = 2_048
"""The records from which on a segment is not merged any more: commits may end inside it, and its parts are then folded again."""


class NotTiling(Exception):
    """A range that does not follow the tail's end, or a base that the tail cannot start from; the text says which."""


@dataclass(frozen=True)
class Segment:
    """One range of the log: its records, the commit that it would be, and the identities that it added."""

    records: pa.Table = field(repr=False)
    commit: Commit
    identities: Identities = field(repr=False)

    @cached_property
    def nbytes(self) -> int:
        """About the bytes of memory that it uses."""
        partials = sum(len(partial) for partial in self.commit.partials.values())
        return int(self.records.nbytes) + partials + self.identities.keys.nbytes + self.identities.times.nbytes + _OWN_BYTES

    @property
    def small(self) -> bool:
        """Whether it may be merged with its neighbours; a larger one would take too long to fold again if commits divide it."""
        return int(self.records.num_rows) < _SMALL


@dataclass(frozen=True)
class Covered:
    """What the tail had folded of `[start, end)` when commits took its place: to compare with these commits.

    * `partials` has, by fingerprint, Arrow IPC streams of states whose ranges are disjoint, of the views that were folded in all
      of it.
    * `evicted`: whether identities were missing for lack of memory, so that their duplicates counted.
    """

    start: Position
    end: Position
    counts: Counts
    partials: Mapping[str, Sequence[bytes]] = field(repr=False)
    evicted: bool = False


@dataclass
class HotTail:
    """The segments that tile `[base, end)` of a source's log; `base` is the end of a commit that readers have.

    Args:
        task: the release's project, with the views to fold and the ids of the source's topics.
        views: the same views by fingerprint.
        at_base, at_end: what the records below these positions decide. No other tail of the source has their epoch. Their
            `caught_up` is of the newest commit: identities are kept as long as the commit path keeps them, or longer. They have
            no idle partitions. Commits leave these out, so the commits' watermark is not behind theirs, unless a commit has a
            partition's first event together with newer events of others.
        most: the bytes of memory beyond which the tail does not grow.
        fanout: how many neighbouring segments of a level become one.
        left_out: fingerprints of the views that new segments do not have. Segments that have them keep them, so answers of
            these views stay where they are until commits have passed them.
        schemas: those of the source's registries, if its records name schemas.
        look_up: what the views look up in now, and up to where that is known.
    """

    task: Task
    source: Source
    views: Mapping[str, View]
    at_base: FollowerState
    most: int | None = None
    fanout: int = FANOUT
    left_out: frozenset[str] = frozenset()
    schemas: RegistrySchemas | None = field(default=None, repr=False)
    look_up: Callable[[], KnownVersions] = field(default=KnownVersions, repr=False)
    at_end: FollowerState = field(init=False)
    segments: tuple[Segment, ...] = field(default=(), init=False)
    _bytes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.at_end = self.at_base

    @property
    def base(self) -> Position:
        """The position from which on the tail counts."""
        return self.at_base.end

    @property
    def end(self) -> Position:
        """The position up to which the tail counts."""
        return self.at_end.end

    @property
    def commits(self) -> tuple[Commit, ...]:
        """The segments as commits, in order."""
        return tuple(segment.commit for segment in self.segments)

    @property
    def nbytes(self) -> int:
        """About the bytes of memory of its segments; `speed.identities_mb` bounds each of its two dedup windows."""
        return self._bytes

    @property
    def full(self) -> bool:
        """Whether it has reached its bound: it then stands still, and grows again once a commit takes the place of a part."""
        return self.most is not None and self.nbytes >= self.most

    def extend(self, records: pa.Table, end: Position, *, at: datetime) -> Commit:
        """Fold the records of `[self.end, end)`, which are all that the log has there, and return them as a commit.

        Raises NotTiling, RangeMismatch if a record lies outside the range, and what the fold raises.
        """
        if end == self.end or not self.end.at_or_below(end):
            raise NotTiling(f"[{self.end}, {end}) does not follow the hot tail, which ends at {self.end}")
        segment, self.at_end = self._folded(records, end, self.at_end, self.views.keys() - self.left_out, at=at)
        self._put((*self.segments, segment))
        return segment.commit

    def compact(self) -> list[Commit]:
        """Merge neighbouring segments, level-wise as the commits of a table; returns those that took the place of others.

        So there are few segments however long no commit arrives, and each record is merged a few times. A merged segment keeps
        its records: commits that end inside it divide it like any other. Segments of different views stay apart.
        """
        small = [segment.commit for segment in self.segments if segment.small]
        if len(small) < self.fanout:
            return []
        found: list[Commit] = []
        alike = [list(group) for _, group in groupby(small, lambda commit: commit.partials.keys())]
        for group in (group for some in alike for group in plan(some, live=self.base, fanout=self.fanout)):
            first = next(n for n, segment in enumerate(self.segments) if segment.commit.start == group[0].start)
            segment = self._merged(self.segments[first : first + len(group)])
            self._put((*self.segments[:first], segment, *self.segments[first + len(group) :]))
            found.append(segment.commit)
        return found

    def covers(self, position: Position) -> bool:
        """Whether the tail can start from there: it has folded everything below, and nothing of it was dropped."""
        return self.base.at_or_below(position) and position.at_or_below(self.end)

    def may_cover(self, position: Position) -> bool:
        """Whether it covers the position now, or may once it has read on; a full tail does not read on."""
        return self.covers(position) or (self.base.at_or_below(position) and not self.full)

    def rebase(
        self, position: Position, *, at: datetime, watermark: int | None = None, caught_up: datetime | None = None
    ) -> Covered:
        """Start from `position`, where commits now end; returns what the tail had folded below it.

        Segments above the position stay as they are. Those that straddle it are folded again from their records, into the views
        that any of them has: so no view's answers move back. `watermark` and `caught_up` are those of the commits. Raises
        NotTiling if the tail does not cover the position.
        """
        if not self.covers(position):
            raise NotTiling(f"commits end at {position}, outside the hot tail [{self.base}, {self.end})")
        below = [segment for segment in self.segments if segment.commit.end.at_or_below(position)]
        above = [segment for segment in self.segments[len(below) :] if position.at_or_below(segment.commit.start)]
        straddling = self.segments[len(below) : len(self.segments) - len(above)]
        base, caught_up = self.base, caught_up or self.at_end.caught_up
        state = replace(self.at_base, caught_up=caught_up)
        for segment in below:
            state = state.after(replace(segment.commit, at=at, caught_up=caught_up), segment.identities)
        parts = [segment.commit for segment in below]
        refolded: list[Segment] = []
        if straddling:
            low, high = split(pa.concat_tables(segment.records for segment in straddling), position)
            views = {fingerprint for segment in straddling for fingerprint in segment.commit.partials}
            lower, state = self._folded(low, position, state, views, at=at)
            parts.append(lower.commit)
            state = replace(state, watermark=later(state.watermark, watermark))
            upper, _ = self._folded(high, straddling[-1].commit.end, state, views, at=at)
            refolded.append(upper)
        covered = Covered(
            base,
            position,
            plus(*(part.counts for part in parts)),
            {
                fingerprint: [part.partials[fingerprint] for part in parts]
                for fingerprint in self.views
                if all(fingerprint in part.partials for part in parts)
            },
            evicted=any(part.identities_since for part in parts),
        )
        self.at_base = replace(state, watermark=later(state.watermark, watermark))
        self.at_end = replace(self.at_end, watermark=later(self.at_end.watermark, watermark), caught_up=caught_up)
        self._put((*refolded, *above))
        return covered

    def _merged(self, segments: Sequence[Segment]) -> Segment:
        """Neighbouring segments as one."""
        return Segment(
            pa.concat_tables(segment.records for segment in segments).combine_chunks(),
            merged([segment.commit for segment in segments], merging(self.views)),
            Identities(
                np.concatenate([segment.identities.keys for segment in segments]),
                np.concatenate([segment.identities.times for segment in segments]),
            ),
        )

    def _put(self, segments: tuple[Segment, ...]) -> None:
        self.segments, self._bytes = segments, sum(segment.nbytes for segment in segments)

    def _folded(
        self, records: pa.Table, end: Position, state: FollowerState, fingerprints: Collection[str], *, at: datetime
    ) -> tuple[Segment, FollowerState]:
        """The segment from the state's end to `end`, with the views of these fingerprints, and the state at `end`."""
        views = {fingerprint: view for fingerprint, view in self.views.items() if fingerprint in fingerprints}
        names = {name: fingerprint for name, fingerprint in self.task.views.items() if fingerprint in fingerprints}
        looked_up = self.look_up()
        task = state.labelling(replace(self.task, views=names, versions=looked_up.versions))

        def run(task: Task) -> list[Share]:
            return [share_of(task, records)] if records.num_rows else []

        folded = fold_shares(run, task, views, state.ranges_to(end), state.dedup_window, schemas=self.schemas)
        after, commit = step(state, folded, end, at=at, looked_up=looked_up.ends)
        return Segment(records, commit, folded.identities), after


def split(records: pa.Table, position: Position) -> tuple[pa.Table, pa.Table]:
    """The records below a position, and the others; a partition that the position lacks has none below it."""
    places: list[Partition] = list(zip(records["topic_id"].to_pylist(), records["partition"].to_pylist(), strict=True))
    bounds = np.array([position.get(place, 0) for place in places], np.int64)
    below = pa.array(records["offset"].to_numpy() < bounds)
    return records.filter(below), records.filter(pc.invert(below))


def states(covered: Covered, fingerprint: str) -> list[pa.Table]:
    """The states of a view that the tail had folded."""
    return [from_ipc(partial) for partial in covered.partials[fingerprint]]
