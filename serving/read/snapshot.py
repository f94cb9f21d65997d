"""The snapshot that a reader pins: one publication, and per source the realtime commits that tile the log from its cut on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.gaps import Gap, touching
from tandem.ledger.log.history import SourceHistory
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import boundary, chain
from tandem.ledger.united_positions import part_of, plain, unite
from tandem.serving.read.late_tables import NOTHING_LATE, LateTables, TableReader
from tandem.serving.read.provenance import Layer, Provenance, SourceProvenance
from tandem.serving.read.realtime_tail import RealtimeTail, unite_tails, up_to
from tandem.views import exactness
from tandem.views.composite.rollup import ancestors, root
from tandem.views.composite.table import looked_up
from tandem.views.composite.together import parts, several
from tandem.views.exactness import Exactness, Reason
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.source.united_source import names_of
from tandem.views.source.watermark import later, least
from tandem.views.sql.expressions import REASONS
from tandem.views.start import StartPositions
from tandem.views.view import View, bind


@dataclass(frozen=True)
class Snapshot:
    """A publication and what its sources' realtime tables held at one poll; `gaps` are all that were ever recorded.

    `histories` are those of its sources, without what their definitions say; `reader` reads the tables in which views look up.

    If it is not `live`, the publication is what a promotion of its release would publish, with the number of the
    publication that is live meanwhile.
    """

    publication: Publication
    tails: Mapping[str, RealtimeTail]
    gaps: tuple[Gap, ...] = ()
    live: bool = True
    histories: Mapping[str, SourceHistory] = field(default_factory=dict)
    reader: TableReader | None = field(default=None, repr=False, compare=False)
    _own: "dict[str, Snapshot]" = field(default_factory=dict, init=False, repr=False, compare=False)
    _late: dict[tuple[str, Layer], LateTables] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def lacks(self) -> str:
        """How a sentence goes on that begins with a view that is not among its views."""
        return "is published" if self.live else f"is in release {self.publication.release}"

    def of(self, view: View) -> "Snapshot":
        """The same with the view's own tail: its answers may count less than those of other views, because it stands aside.

        The tail of a view over several sources is made of those of its parts, which are its own, too.
        """
        first = root(view)
        if first.name not in self._own:
            self._own[first.name] = self._with_own(first)
        return self._own[first.name]

    def _with_own(self, first: View) -> "Snapshot":
        tails, marks = dict(self.tails), {}
        for part in parts(first):
            live, tail = self.publication.views.get(part.name), self.tails.get(part.source.name)
            if live is not None and tail is not None:
                tails[part.source.name], marks[part.source.name] = tail.of(live.fingerprint), live.fingerprint
        if several(first) and len(marks) == len(parts(first)) and first.source.name not in tails:
            tails[first.source.name] = unite_tails({name: tails[name] for name in marks}, fingerprint(first), marks)
        return self if all(self.tails.get(name) is tail for name, tail in tails.items()) else replace(self, tails=tails)

    def tail(self, view: View) -> RealtimeTail:
        """The view's own tail."""
        return self.of(view).tails[view.source.name]

    def up_to(self, view: View, end: Position) -> "Snapshot":
        """The same with the view's own tail up to a position at which one of its commits ends."""
        tails, ended = self.of(view).tails, up_to(self.tail(view), end)
        return replace(self, tails={**tails, **ended.parts, view.source.name: ended})

    def batch(self, view: View) -> BatchView:
        """The batch view whose states answer for a view."""
        return batch_of(self.publication, view)

    def late(self, view: View, layer: Layer = "merged") -> LateTables:
        """The tables in which a view looks up, and what is late in them for a layer. Raises Unreadable."""
        if self.reader is None or not looked_up(root(view)):
            return NOTHING_LATE
        place = (root(view).name, layer)
        if place not in self._late:
            self._late[place] = self.reader.late(self.publication, self.of(view).tails, view, layer)
        return self._late[place]

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

    def newest(self, source: str, *, layer: Layer = "merged") -> datetime | None:
        """The append time of the newest event of a source, or of several, that a layer counts; None without events."""
        times = [None if layer == "speed" else self.publication.newest.get(name) for name in names_of(source)]
        times += [None if layer == "batch" else self.tails[name].newest for name in names_of(source)]
        return max((time for time in times if time is not None), default=None)

    def watermark(self, source: str, *, at_the_cut: bool = False) -> int | None:
        """The source's watermark at its position, or at the cut, in microseconds since 1970; None without events.

        It never moves back between snapshots of a reader, or between readers of one release. That of several is their least.
        """
        return least(
            [
                later(self.publication.watermarks.get(name), None if at_the_cut else self.tails[name].watermark)
                for name in names_of(source)
            ]
        )

    def after_final(self, view: View, *, layer: Layer = "merged") -> int:
        """How many counted events of a view arrived in windows that had been labelled final, in a layer.

        Those of a rollup are its root's: a window of a rollup ends with one of the root's windows or later.
        """
        counted = 0
        for part in parts(root(view)):
            below = 0 if layer == "speed" else self.publication.after_final.get(part.name, 0)
            mark = self.publication.views[part.name].fingerprint
            counted += below + (0 if layer == "batch" else self.tails[part.source.name].after_final(mark))
        return counted

    def below(self, source: str) -> Counts:
        """The counts of the records of a source, or of several, below their cuts."""
        return plus(*(self.publication.counts.get(name, NOTHING) for name in names_of(source)))

    def ahead(self, source: str, *, layer: Layer = "merged") -> int:
        """How many counted events of a source, or of several, were ahead of their records' timestamps, in a layer."""
        below = 0 if layer == "speed" else self.below(source).ahead
        return below + sum(0 if layer == "batch" else self.tails[name].counts.ahead for name in names_of(source))

    def touching(self, view: View, layer: Layer = "merged") -> tuple[Gap, ...]:
        """The gaps of a view's sources with an offset that a layer counts."""
        tails = ((part.source.name, self.tails[part.source.name]) for part in parts(root(view)))
        gaps = (
            touching(self.gaps, name, each.cut if layer == "speed" else LOG_START, each.cut if layer == "batch" else each.end)
            for name, each in tails
        )
        return tuple(gap for of_source in gaps for gap in of_source)


def batch_of(publication: Publication, view: View) -> BatchView:
    """The batch view whose states answer for a view at a publication.

    That of a rollup has the states of its root, and its own fingerprint. A window of it has left once a state of it has.
    """
    first = root(view)
    live = _batch_of_parts(publication, first) if several(first) else publication.views[first.name]
    if first is view:
        return live
    parts_, first_at = live.parts, bind(view).placement.timing.first_at
    if live.gone is not None and first_at is not None:
        start, end = live.gone
        parts_ = (*live.log_parts, replace(parts_[-1], windows=(start, first_at(end))))
    return BatchView(fingerprint(view), parts_, live.table(first.name), live.fingerprint, live.versions)


def _batch_of_parts(publication: Publication, view: View) -> BatchView:
    """The batch view of a view over several sources: what the batch views of its parts have."""
    of = [(part.name, publication.views[part.name]) for part in parts(view)]
    of_parts = tuple(replace(each, view=name, table=live.table(name)) for name, live in of for each in live.parts)
    return BatchView(_mark(publication, view), of_parts, versions=tuple(live.version for _, live in of))


def _mark(publication: Publication, view: View) -> str:
    """The fingerprint under which the states of a view are; empty if a part was computed otherwise."""
    same = all(publication.views[part.name].fingerprint == fingerprint(part) for part in parts(view))
    return fingerprint(view) if same else ""


def has_view(publication: Publication, view: View) -> bool:
    """Whether a publication has the states that a view is made of."""
    return all(part.name in publication.views for part in parts(root(view)))


def tail_at(tables: Tables, release: int, view: View, cut: Position) -> RealtimeTail:
    """The tail that a view has from a cut on, as the tables are now."""
    first = root(view)
    if not several(first):
        return tail(Follower(tables, release, first.source.name).poll(), cut)
    names = {part.source.name: fingerprint(part) for part in parts(first)}
    tails = {name: tail(Follower(tables, release, name).poll(), part_of(cut, name)) for name in names}
    return unite_tails(tails, fingerprint(first), names)


def cut_of(publication: Publication, view: View) -> Position:
    """The cut of a view's source, or of all of them."""
    names = names_of(view.source.name)
    return unite({name: publication.cut(name) for name in names}) if several(view) else publication.cut(names[0])


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
    gaps = snapshot.touching(view, layer)
    each = {part.source.name: _of_source(snapshot, part, layer) for part in parts(root(view))}
    alone = None if several(view) else next(iter(each.values()))
    return Provenance(
        layer=layer,
        publication=publication.number,
        release=publication.release,
        fingerprint=live.fingerprint,
        batch_version=live.version,
        cut=plain(tail.cut, view.source),
        realtime=plain(tail.cut if layer == "batch" else tail.end, view.source),
        hot=plain(tail.committed, view.source) if tail.hot and layer != "batch" else None,
        newest=snapshot.newest(source, layer=layer),
        watermark=snapshot.watermark(source, at_the_cut=layer == "batch"),
        after_final=snapshot.after_final(view, layer=layer),
        ahead=snapshot.ahead(source, layer=layer),
        rejected=rejected,
        gaps=gaps,
        accepted=publication.gaps,
        exactness=_exactness(snapshot, view, layer, gaps),
        start=None if alone is None else alone.start,
        kept_from=live.first_window,
        rollup_of=ancestors(view),
        history=None if alone is None else alone.history,
        live=snapshot.live,
        sources=each if alone is None else {},
        tables=snapshot.late(view, layer).tables,
    )


def _of_source(snapshot: Snapshot, part: View, layer: Layer) -> SourceProvenance:
    """What one source gives to an answer."""
    source, tail = part.source, snapshot.tails[part.source.name]
    return SourceProvenance(
        batch_version=snapshot.publication.views[part.name].version,
        cut=tail.cut,
        realtime=tail.cut if layer == "batch" else tail.end,
        hot=tail.committed if tail.hot and layer != "batch" else None,
        newest=snapshot.newest(source.name, layer=layer),
        watermark=snapshot.watermark(source.name, at_the_cut=layer == "batch"),
        ahead=snapshot.ahead(source.name, layer=layer),
        start=source.start if isinstance(source.start, StartPositions) else None,
        history=snapshot.histories.get(source.name, SourceHistory()).of(source),
    )


def _exactness(snapshot: Snapshot, view: View, layer: Layer, gaps: Sequence[Gap]) -> Exactness:
    """How exact the answers of a layer are: for the reasons of each source, each once."""
    each_source = []
    for part in parts(root(view)):
        name = part.source.name
        of = part if several(view) else view
        tail = None if layer == "batch" else snapshot.tails[name]
        theirs = [gap for gap in gaps if gap.source == name]
        each_source.append(exactness_of(of, tail, theirs, snapshot.publication.repaired.get(name)))
    late = snapshot.late(view, layer)
    if late.times:
        corrections = sum(each.corrections for each in late.tables.values())
        each_source.append(Exactness(marked=(exactness.late_table(corrections),)))
    if len(each_source) == 1:
        return each_source[0]
    columns = exactness.of_measures(view)
    everywhere = dict.fromkeys(reason for of_source in each_source for reason in of_source.every)
    marked = dict.fromkeys(reason for of_source in each_source for reason in of_source.marked)
    return Exactness(tuple(everywhere), tuple(marked), columns, whole=len(columns) < len(view.measures))


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
    publication, tail = snapshot.publication, snapshot.tail(view)
    counted = Counter[str]()
    for part in parts(root(view)):
        counted.update(publication.rejected.get(part.name, {}))
    for commit in tail.every:
        counted.update(commit.rejected.get(snapshot.batch(view).states, {}))
    return {reason: counted[reason] for reason in REASONS if counted[reason]}
