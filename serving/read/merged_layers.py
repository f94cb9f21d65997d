"""The merged reader: `present(merge(batch states below the cut, realtime partials from the cut on))`, in process.

A reader answers from one pinned snapshot until `refresh` finds a newer one. It reads only new files of the realtime tables, and
merges only new commits into its partial of each view.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.hash_slots import EVERY
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.ledger.publish.batch_parts import staying
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import NoRelease, Releases
from tandem.ledger.realtime.commits import Commit
from tandem.serving.read.outcome import Failed, Outcome, ReadFailed, answered
from tandem.serving.read.provenance import Layer, Provenance
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.selection import ALWAYS, BadSelection, Between, Selection, of_root, select
from tandem.serving.read.snapshot import Snapshot, batch_of, provenance_of
from tandem.serving.read.snapshot_follower import Hot, PastPublication, SnapshotFollower
from tandem.serving.read.states import BatchStates, ReadCache, Runs, follow, in_slots, states_of
from tandem.serving.read.touched_rows import TOUCHED, marks_tail, split, with_touched
from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts, several
from tandem.views.errors import DefinitionError, TandemError, listed
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import Partial, arrange, arrange_as_one, current, merge, merge_states, present_arranged, roll
from tandem.views.kernel.rows import ordered
from tandem.views.project.project import Project, load_files
from tandem.views.view import View


class UnknownView(TandemError, code="view-unknown"):
    """A view that the published release does not have."""


@dataclass(frozen=True)
class Arranged:
    """The rows of an answer as merged states, as arranged_schema(view) says, in the order of answers, before presentation.

    They also say which rows are touched (tandem.serving.read.touched_rows), where that makes a difference.
    """

    view: View
    states: pa.Table
    provenance: Provenance


Keep = Callable[[pa.Table], pa.Table]
"""From some rows of an answer those that are needed whatever other rows it has, in order; its columns may include `_touched`."""


@dataclass
class Reader:
    """Answers about the views of the published release, for one thread at a time.

    With `hot`, hot commits continue the realtime tables. With `publication` the reader stays at that one, with the definitions of
    its release, and answers only from the layer `batch`. With `asked` it answers as if that release were promoted now.
    """

    tables: Tables
    publication: int | None = None
    hot: Hot | None = None
    asked: IfPromoted | None = None
    cache: ReadCache = field(default_factory=ReadCache, repr=False)
    _following: SnapshotFollower | PastPublication = field(init=False, repr=False)
    _pinned: Snapshot | Failed | None = field(default=None, init=False, repr=False)
    _projects: dict[int, Project] = field(default_factory=dict, init=False, repr=False)
    _batches: dict[str, BatchStates] = field(default_factory=dict, init=False, repr=False)
    _runs: dict[tuple[int, str], Runs] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.publication is None:
            self._following = SnapshotFollower(self.tables, self.hot, self.asked)
        else:
            self._following = PastPublication(self.tables, self.publication)

    def refresh(self) -> Snapshot | Failed:
        """Pin the newest snapshot; see SnapshotFollower.refresh."""
        self._pinned = self._following.refresh()
        if isinstance(self._pinned, Snapshot):
            self._forget(self._pinned.publication)
        return self._pinned

    def refresh_hot(self) -> Snapshot | None:
        """Pin the newest hot commits without a read of tables; see SnapshotFollower.refresh_hot."""
        following = self._following
        found = following.refresh_hot() if isinstance(following, SnapshotFollower) else None
        self._pinned = found or self._pinned
        return found

    def _forget(self, live: Publication) -> None:
        """Release what this publication does not need."""
        self._projects = {release: project for release, project in self._projects.items() if release == live.release}
        addresses = {batch.address(self.tables, name) for name, batch in live.views.items()}
        self._batches = {address: states for address, states in self._batches.items() if address in addresses}
        self._runs = {key: runs for key, runs in self._runs.items() if key[0] == live.release}

    def snapshot(self) -> Snapshot:
        """The pinned snapshot, the newest if none is pinned yet. Raises ReadFailed."""
        pinned = self._pinned or self.refresh()
        if isinstance(pinned, Failed):
            raise ReadFailed(pinned.reason)
        return pinned

    def project(self) -> Project:
        """The stored definitions of the published release. Raises ReadFailed, Unreadable."""
        release = self.snapshot().publication.release
        if release not in self._projects:
            try:
                self._projects[release] = load_files(Releases(self.tables).load(release).files)
            except (NoRelease, DefinitionError) as error:
                raise ReadFailed(f"the definitions of release {release} cannot be used: {error}") from error
        return self._projects[release]

    def view(self, name: str) -> View:
        """A view of the published release by name. Raises UnknownView, ReadFailed, Unreadable."""
        views = self.project().every_view
        if name not in views:
            raise UnknownView(f"no view {name!r} {self.snapshot().lacks}; views: {listed(name, views)}")
        return views[name]

    def answer(
        self,
        view: str,
        *,
        keys: Mapping[str, object] | None = None,
        between: Between = ALWAYS,
        one: bool = False,
        at: datetime | None = None,
        layer: Layer = "merged",
        limit: int | None = None,
    ) -> Outcome:
        """The answer about a view at the pinned snapshot: its rows, the certainty that there are none, or why neither.

        `keys` gives values by key name, None for NULL; `between` bounds window starts, `[from, to)`; with `one` that range, made
        of the view's slices, is one window; `at` gives the versions of a table that were valid then. `limit` keeps the first
        rows. Raises UnknownView, and BadSelection for an invalid question.
        """
        return self.select(view, lambda of: select(of, keys or {}, between, one=one, at=at), layer, limit)

    def select(
        self,
        view: str,
        selected: Callable[[View], Selection],
        layer: Layer = "merged",
        limit: int | None = None,
        *,
        keep: Keep | None = None,
    ) -> Outcome:
        """`answer`, with the selection that a function returns for the view. Raises as `answer`, and the function's errors."""
        self.refuse_other_than_batch(layer)
        try:
            return self._answer(view, selected, layer, limit, keep=keep)
        except ReadFailed as error:
            return Failed(str(error))
        except Unreadable:
            # Files of an older publication may have been deleted: another one may be live.
            self.refresh()
        try:
            return self._answer(view, selected, layer, limit, keep=keep)
        except (ReadFailed, Unreadable) as error:
            return Failed(str(error))

    def answer_at(
        self, snapshot: Snapshot, view: View, selection: Selection, layer: Layer, limit: int | None, *, keep: Keep | None = None
    ) -> Outcome:
        """The answer at any snapshot whose release defines the view; the pinned snapshot does not change. Raises Unreadable.

        `keep` says which rows of the answer are needed.
        """
        self.refuse_other_than_batch(layer)
        self._forget(snapshot.publication)
        return self._present_at(snapshot, view, selection, layer, limit, keep=keep)

    def arranged_at(self, snapshot: Snapshot, view: View, selection: Selection | None = None) -> Arranged | Failed:
        """The rows of a view at any such snapshot, with their states; all of them without a selection. Raises Unreadable."""
        self._forget(snapshot.publication)
        return self._arranged_at(snapshot, view, selection or select(view, {}, ALWAYS), "merged")

    def refuse_other_than_batch(self, layer: Layer) -> None:
        """Raise BadSelection for a layer other than batch of a past publication, which has no other."""
        if self.publication is not None and layer != "batch":
            raise BadSelection(f"publication {self.publication} has only the layer batch, not {layer}")

    def _answer(
        self, name: str, selected: Callable[[View], Selection], layer: Layer, limit: int | None, *, keep: Keep | None
    ) -> Outcome:
        snapshot, view = self.snapshot(), self.view(name)
        return self._present_at(snapshot, view, selected(view), layer, limit, keep=keep)

    def _present_at(
        self, snapshot: Snapshot, view: View, selection: Selection, layer: Layer, limit: int | None, *, keep: Keep | None
    ) -> Outcome:
        """The answer, of which `keep` rows are needed; of many states made piece by piece, so that memory never has all."""
        pieces = self._pieces(snapshot, view, selection, layer)
        if len(pieces) == 1:
            return _presented(self._arranged_at(snapshot, view, selection, layer), limit, keep)
        needed, rows, total = keep or partial(first_rows, view, limit), list[pa.Table](), 0
        for slots in pieces:
            arranged = self._arranged_at(snapshot, view, selection, layer, slots)
            if isinstance(arranged, Failed):
                return arranged
            states, touched = split(arranged.states.slice(0, limit))  # they are in order
            some = present_arranged(view, states, arranged.provenance.watermark)
            total += arranged.states.num_rows
            rows = [needed(pa.concat_tables([*rows, some if touched is None else some.append_column(TOUCHED, touched)]))]
            provenance = arranged.provenance
        table, touched = split(rows[0])
        return answered(view, table, touched, provenance, total=total)

    def _pieces(self, snapshot: Snapshot, view: View, selection: Selection, layer: Layer) -> list[range]:
        """The hash slots of the states of each piece; one where the rows are few, or made of states of several slots."""
        apart = has_own_states(view) and not selection.one
        every_key = bool(view.keys) and selection.keys.keys() == view.keys.keys()
        if not apart or every_key or selection.among is not None or layer == "speed" or refusal(snapshot, view) is not None:
            return [EVERY]
        return self._states(view, snapshot.publication).pieces(batch_of(snapshot.publication, view).parts)

    def _arranged_at(
        self, snapshot: Snapshot, view: View, selection: Selection, layer: Layer, slots: range = EVERY
    ) -> Arranged | Failed:
        if (problem := refusal(snapshot, view)) is not None:
            return Failed(problem)
        publication, tail = snapshot.publication, snapshot.tail(view)
        # Which versions of a table were valid at a time is a question about the states of its root.
        by_root = selection.at is not None or isinstance(view, RowsView)
        of, states = (root(view), of_root(view, selection)) if by_root else (view, selection)
        after = [] if layer == "batch" else self._from_the_cut_on(of, publication, tail, states)
        after = [replace(each, states=in_slots(of, each.states, slots)) for each in after]
        below = [] if layer == "speed" else [self._below_the_cut(of, publication, tail, states, slots)]
        if of is not view:
            after, below = ([replace(each, states=roll(view, each.states)) for each in part] for part in (after, below))
        merged = current(view, merge(view, [*below, *after]))
        provenance = provenance_of(snapshot, view, layer, merged.rejected)
        if isinstance(view, RowsView):
            rows = selection.rows(selection.of_keys(merged.states))
            if provenance.exactness.marked:  # a version that was replaced may have been part of any of them
                touched = marks_tail(provenance.exactness) and any(part.states.num_rows for part in after)
                rows = rows.append_column(TOUCHED, pa.array([touched] * rows.num_rows, pa.bool_()))
            return Arranged(view, ordered(view, rows), provenance)
        rows = _rows(view, merged.states, selection)
        if provenance.exactness.marked:
            new = [one.states for one in after] if marks_tail(provenance.exactness) else []
            alone = _rows(view, merge_states(view, new), selection)
            rows = with_touched(view, rows, alone, snapshot.late(view, layer), one=selection.one)
        return Arranged(view, ordered(view, rows), provenance)

    def _states(self, part: View, publication: Publication) -> BatchStates:
        """The states of the table of a view that has one of its own."""
        address = batch_of(publication, part).address(self.tables, part.name)
        if address not in self._batches:
            self._batches[address] = BatchStates(self.tables, address, part, self.cache)
        return self._batches[address]

    def _below_the_cut(
        self, view: View, publication: Publication, tail: RealtimeTail, selection: Selection, slots: range
    ) -> Partial:
        first, rolled, rejects = root(view), list[pa.Table](), Counter[str]()
        for part in parts(first):
            live = batch_of(publication, view if part is first else part)
            needed = selection if first is view else of_root(view, selection)
            states = self._states(part, publication).read(live.parts, needed, slots)
            rolled.append(states if part is view else selection.filter(roll(view, states)))
            rejects.update(publication.rejected.get(part.name, {}))
        return Partial(pa.concat_tables(rolled), ranges(LOG_START, tail.cut), rejects)

    def _from_the_cut_on(self, view: View, publication: Publication, tail: RealtimeTail, selection: Selection) -> list[Partial]:
        place, live = (publication.release, view.name), batch_of(publication, view)

        def decode(commit: Commit) -> Partial:
            states = states_of(self.tables, publication.release, view, live.states, commit)
            return Partial(states, ranges(commit.start, commit.end), commit.rejected.get(live.states, {}))

        runs = self._runs[place] = follow(view, self._runs.get(place, ()), tail.commits, decode)
        # Hot commits come and go, so no run has any of them.
        partials = [*(run.partial for run in runs), *map(decode, tail.hot)]
        return [Partial(staying(selection.filter(p.states), live.first_window), p.ranges, p.rejected) for p in partials]


def _presented(found: Arranged | Failed, limit: int | None, keep: Keep | None) -> Outcome:
    """The answer of arranged rows, up to a limit."""
    if isinstance(found, Failed):
        return found
    states, touched = split(found.states.slice(0, limit))
    table = present_arranged(found.view, states, found.provenance.watermark)
    if keep is not None:
        table, touched = split(keep(table if touched is None else table.append_column(TOUCHED, touched)))
    return answered(found.view, table, touched, found.provenance, total=found.states.num_rows)


def first_rows(view: View, limit: int | None, rows: pa.Table) -> pa.Table:
    """The first rows of an answer, all without a limit."""
    return ordered(view, rows).slice(0, limit)


def has_own_states(view: View) -> bool:
    """Whether rows are made of states of the view's own table: not those of a rollup, of several sources, of a table's rows."""
    return root(view) is view and not isinstance(view, RowsView) and not several(view)


def refusal(snapshot: Snapshot, view: View) -> str | None:
    """Why a view has no answer at a snapshot, as a sentence for the user; None if it has one."""
    problem = snapshot.tail(view).problem
    if problem is not None:
        return f"view {view.name!r} cannot be answered exactly: {problem}"
    if fingerprint(root(view)) != snapshot.batch(view).states:
        return (
            f"view {view.name!r} was published by a version of Tandem that computes it differently; run `tandem apply "
            "--auto-promote`"
        )
    return None


def _rows(view: View, states: pa.Table, selection: Selection) -> pa.Table:
    """The requested rows, of merged states."""
    if selection.one and selection.start is not None and selection.end is not None:
        return arrange_as_one(view, states, selection.start, selection.end)
    return selection.rows(arrange(view, states))
