"""The snapshot that a reader pins: one publication, and per source the realtime commits that tile the log from its cut on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import takewhile

from tandem.ledger.hot.chain import HotCommits, continuing
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.gaps import Gap, touching
from tandem.ledger.log.history import SourceHistory
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.tiling import boundary, chain
from tandem.serving.read.provenance import Layer, Provenance
from tandem.views import exactness
from tandem.views.exactness import Exactness, Reason
from tandem.views.fingerprint.fingerprint import fingerprint
from tandem.views.rollup import ancestors, root
from tandem.views.source.watermark import later
from tandem.views.sql.expressions import REASONS
from tandem.views.start import StartPositions
from tandem.views.view import View, bind


@dataclass(frozen=True)
class RealtimeTail:
    """The realtime side of one source: commits in order that tile `[cut, end)`, then hot commits that no table has.

    `problem` says why they do not, if so: then none of the source's views has an answer. `behind_bridge` says that the table
    continues beyond a bridge, which is read once a batch view covers it. `cold` is the tail without hot commits, if it has some.
    """

    cut: Position
    end: Position
    commits: tuple[Commit, ...] = field(default=(), repr=False)
    behind_bridge: bool = False
    problem: str | None = None
    hot: HotCommits = field(default=(), repr=False)
    cold: "RealtimeTail | None" = field(default=None, repr=False)

    @property
    def every(self) -> tuple[Commit, ...]:
        """All commits, in order."""
        return (*self.commits, *self.hot)

    @property
    def committed(self) -> Position:
        """Where the commits of the table end and hot commits begin."""
        return self.hot[0].start if self.hot else self.end

    def with_hot(self, hot: HotCommits) -> "RealtimeTail":
        """The tail with hot commits in place of what follows their start; the same tail if they do not continue it."""
        cold = self.cold or self
        kept = None if cold.problem is not None else continuing(cold.commits, cold.cut, hot)
        return self if kept is None else replace(cold, end=hot[-1].end, commits=kept, hot=hot, cold=cold)

    def of(self, fingerprint: str) -> "RealtimeTail":
        """The tail of one view: it ends where hot commits begin that lack the view, because it stands aside."""
        hot = tuple(takewhile(lambda commit: fingerprint in commit.partials, self.hot))
        return self if self.cold is None or len(hot) == len(self.hot) else self.cold.with_hot(hot)

    def up_to(self, end: Position) -> "RealtimeTail":
        """The tail up to a position at which one of its commits ends, hot ones among them, or to its cut."""
        commits, hot = (tuple(each for each in part if each.end.at_or_below(end)) for part in (self.commits, self.hot))
        return replace(self, end=end, commits=commits, hot=hot, cold=None)

    @property
    def hot_throughout(self) -> frozenset[str]:
        """The fingerprints of the views that all hot commits have."""
        return frozenset.intersection(*(frozenset(commit.partials) for commit in self.hot)) if self.hot else frozenset()

    @property
    def counts(self) -> Counts:
        """The counts of the records of `[cut, end)`."""
        return plus(*(commit.counts for commit in self.every))

    @property
    def newest(self) -> datetime | None:
        """The append time of the newest event of `[cut, end)`; None without events.

        A record that claims to be newer than the commit that counted it has a wrong timestamp: it was in the log by then.
        """
        times = ((commit.newest, commit.at) for commit in self.every)
        return max((min(newest, at or newest) for newest, at in times if newest), default=None)

    @property
    def watermark(self) -> int | None:
        """The watermark at `end`, as far as the commits know it, in microseconds since 1970."""
        return later(*(commit.watermark for commit in self.every))

    @property
    def identities_since(self) -> datetime | None:
        """Events counted before this time had duplicates in `[cut, end)` that could not be recognized, for lack of memory.

        None where no identity within `dedup_window` was evicted.
        """
        return max((commit.identities_since for commit in self.every if commit.identities_since), default=None)

    def after_final(self, fingerprint: str) -> int:
        """How many events of a view in `[cut, end)` arrived in windows that had been labelled final."""
        return sum(commit.after_final.get(fingerprint, 0) for commit in self.every)


@dataclass(frozen=True)
class Snapshot:
    """A publication and what its sources' realtime tables held at one poll; `gaps` are all that were ever recorded.

    `histories` are those of its sources, without what their definitions say.

    If it is not `live`, the publication is what a promotion of its release would publish, with the number of the
    publication that is live meanwhile.
    """

    publication: Publication
    tails: Mapping[str, RealtimeTail]
    gaps: tuple[Gap, ...] = ()
    live: bool = True
    histories: Mapping[str, SourceHistory] = field(default_factory=dict)

    @property
    def lacks(self) -> str:
        """How a sentence goes on that begins with a view that is not among its views."""
        return "is published" if self.live else f"is in release {self.publication.release}"

    def of(self, view: View) -> "Snapshot":
        """The same with the view's own tail: its answers may count less than those of other views, because it stands aside."""
        live, tail = self.publication.views.get(root(view).name), self.tails.get(view.source.name)
        own = tail if live is None or tail is None else tail.of(live.fingerprint)
        return self if own is None or own is tail else replace(self, tails={**self.tails, view.source.name: own})

    def up_to(self, view: View, end: Position) -> "Snapshot":
        """The same with the view's own tail up to a position at which one of its commits ends."""
        tails = self.of(view).tails
        return replace(self, tails={**tails, view.source.name: tails[view.source.name].up_to(end)})

    def batch(self, view: View) -> BatchView:
        """The batch view whose states answer for a view."""
        return batch_of(self.publication, view)

    @property
    def tiled(self) -> bool:
        """Whether every source can be answered."""
        return all(tail.problem is None for tail in self.tails.values())

    @property
    def all_hot(self) -> bool:
        """Whether the answers of every view count all hot commits of its source, and every source has some."""
        live = {view.fingerprint for view in self.publication.views.values()}
        counted = {mark for tail in self.tails.values() for mark in tail.hot_throughout}
        return bool(live) and live <= counted and all(tail.hot for tail in self.tails.values())

    @property
    def positions(self) -> dict[str, Position]:
        """The position of the answers of each source that has answers."""
        return {source: tail.end for source, tail in self.tails.items() if tail.problem is None}

    @property
    def hot_positions(self) -> dict[tuple[str, str], Position]:
        """The positions of the answers, by source and view, of the views that have hot commits."""
        return {
            (source, name): tail.of(view.fingerprint).end
            for source, tail in self.tails.items()
            for name, view in self.publication.views.items()
            if tail.hot and view.fingerprint in tail.hot[0].partials
        }

    def counted_elsewhere(self, view: str, source: str) -> bool:
        """Whether commits of another source count the view: a release may move it."""
        mark = self.publication.views[view].fingerprint
        return any(mark in commit.partials for name, tail in self.tails.items() if name != source for commit in tail.every)

    def gaps_of(self, source: str) -> dict[Gap, bool]:
        """The gaps of a source, in the order in which they were recorded, and whether the publication accepts each."""
        return {gap: gap.name in self.publication.gaps for gap in self.gaps if gap.source == source}

    def newest(self, source: str) -> datetime | None:
        """The append time of the newest event of a source that is counted; None without events."""
        times = (self.publication.newest.get(source), self.tails[source].newest)
        return max((time for time in times if time is not None), default=None)

    def watermark(self, source: str, *, at_the_cut: bool = False) -> int | None:
        """The source's watermark at its position, or at the cut, in microseconds since 1970; None without events.

        It never moves back between snapshots of a reader, or between readers of one release.
        """
        return later(self.publication.watermarks.get(source), None if at_the_cut else self.tails[source].watermark)

    def after_final(self, view: View, *, layer: Layer = "merged") -> int:
        """How many counted events of a view arrived in windows that had been labelled final, in a layer.

        Those of a rollup are its root's: a window of a rollup ends with one of the root's windows or later.
        """
        name = root(view).name
        below = 0 if layer == "speed" else self.publication.after_final.get(name, 0)
        fingerprint = self.publication.views[name].fingerprint
        return below + (0 if layer == "batch" else self.tails[view.source.name].after_final(fingerprint))

    def ahead(self, source: str, *, layer: Layer = "merged") -> int:
        """How many counted events of a source were ahead of their records' timestamps, in a layer."""
        below = 0 if layer == "speed" else self.publication.counts.get(source, NOTHING).ahead
        return below + (0 if layer == "batch" else self.tails[source].counts.ahead)


def batch_of(publication: Publication, view: View) -> BatchView:
    """The batch view whose states answer for a view at a publication.

    That of a rollup has the states of its root, and its own fingerprint. A window of it has left once a state of it has.
    """
    first = root(view)
    live = publication.views[first.name]
    if first is view:
        return live
    parts, first_at = live.parts, bind(view).placement.timing.first_at
    if live.gone is not None and first_at is not None:
        start, end = live.gone
        parts = (*live.log_parts, replace(parts[-1], windows=(start, first_at(end))))
    return BatchView(fingerprint(view), parts, live.at or f"{first.name}/{live.fingerprint}", live.fingerprint)


def tail(commits: Sequence[Commit], cut: Position) -> RealtimeTail:
    """A source's commits; those from the cut on are the tail."""
    tiled = chain(commits, cut)
    problem = tiled.problem
    if problem is None and not boundary(commits, cut):
        problem = f"no commit starts or ends at the cut {cut}: the realtime table has lost some"
    if problem:
        return RealtimeTail(cut, cut, problem=problem)
    return RealtimeTail(cut, tiled.end, tiled.commits, behind_bridge=tiled.bridge is not None)


def provenance_of(snapshot: Snapshot, view: View, layer: Layer, rejected: Mapping[str, int]) -> Provenance:
    """The provenance of an answer of a view from a layer of the snapshot; `rejected` are the view's rejects in it."""
    publication, source = snapshot.publication, view.source.name
    snapshot = snapshot.of(view)
    live, tail = snapshot.batch(view), snapshot.tails[source]
    start = tail.cut if layer == "speed" else LOG_START
    end = tail.cut if layer == "batch" else tail.end
    gaps = touching(snapshot.gaps, source, start, end)
    newest = {"batch": publication.newest.get(source), "speed": tail.newest, "merged": snapshot.newest(source)}[layer]
    return Provenance(
        layer=layer,
        publication=publication.number,
        release=publication.release,
        fingerprint=live.fingerprint,
        batch_version=live.version,
        cut=tail.cut,
        realtime=end,
        hot=tail.committed if tail.hot and layer != "batch" else None,
        newest=newest,
        watermark=snapshot.watermark(source, at_the_cut=layer == "batch"),
        after_final=snapshot.after_final(view, layer=layer),
        ahead=snapshot.ahead(source, layer=layer),
        rejected=rejected,
        gaps=gaps,
        accepted=publication.gaps,
        exactness=exactness_of(view, None if layer == "batch" else tail, gaps, publication.repaired.get(source)),
        start=view.source.start if isinstance(view.source.start, StartPositions) else None,
        kept_from=live.first_window,
        rollup_of=ancestors(view),
        history=snapshot.histories.get(source, SourceHistory()).of(view.source),
        live=snapshot.live,
    )


def exactness_of(view: View, tail: RealtimeTail | None, gaps: Sequence[Gap], repaired: int | None) -> Exactness:
    """How exact answers are that count a tail and have these gaps; `repaired` is the number of duplicates that the last
    recompute removed.
    """
    every = [exactness.gap(gap.name, gap.ranges.length, gap.reason) for gap in gaps]
    every += [exactness.COMPACTION] if view.source.compacted else []
    marked: list[Reason] = []
    if view.source.identity and tail is not None and tail.end != tail.cut:
        # Where windows follow the order of partitions, it matters in which of them the copy lies that counts.
        placed = bind(view).placement.in_order and len(tail.end) > 1
        since = tail.identities_since
        (every if placed else marked).append(exactness.late_duplicate(view.source.dedup_window, repaired, since))
        differing = tail.counts.duplicates if placed else tail.counts.conflicts
        if differing and len(tail.end) > 1:
            every.append(exactness.conflicting_duplicate(differing))
    columns = exactness.of_measures(view)
    return Exactness(tuple(every), tuple(marked), columns, whole=len(columns) < len(view.measures))


def rejected(snapshot: Snapshot, view: View) -> dict[str, int]:
    """By reason, the events up to the snapshot's positions that the view could not evaluate."""
    publication, tail = snapshot.publication, snapshot.of(view).tails[view.source.name]
    counted = Counter(publication.rejected.get(root(view).name, {}))
    for commit in tail.every:
        counted.update(commit.rejected.get(snapshot.batch(view).states, {}))
    return {reason: counted[reason] for reason in REASONS if counted[reason]}
