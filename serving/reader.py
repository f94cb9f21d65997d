"""The merged reader: `present(merge(batch states below the cut, realtime partials from the cut on))`, in process.

A reader answers from one pinned snapshot until `refresh` finds more. Of the realtime tables it reads only new files, and of
each view that is asked for it merges only new commits into what it holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from ledger import releases
from ledger.commits import Commit
from ledger.delta import Unreadable, unreadable
from ledger.gaps import touching
from ledger.positions import LOG_START, ranges
from ledger.publications import Publication
from ledger.releases import NoRelease
from ledger.tables import Tables
from serving.batch_states import BatchStates
from serving.following import Following
from serving.outcome import Absent, Failed, Outcome, ReadFailed, Value
from serving.past import Past
from serving.provenance import Layer, Provenance
from serving.runs import Runs, follow
from serving.selection import ALWAYS, BadSelection, Between, Selection, select
from serving.snapshot import Snapshot, Tail
from views.errors import DefinitionError, TandemError, listed
from views.fingerprint import fingerprint
from views.kernel import Partial, arrange, arrange_as_one, merge, present_arranged
from views.project import Project, load_files
from views.rows import ordered
from views.view import View, approximations, state_schema
from views.wire import from_ipc


class UnknownView(TandemError):
    """A view that the published release does not have."""


@dataclass(frozen=True)
class Arranged:
    """The rows of an answer as merged states, as arranged_schema(view) says, in the order of answers: what is presented."""

    view: View
    states: pa.Table
    provenance: Provenance


@dataclass
class Reader:
    """Answers about the views of the published release, for one thread at a time.

    With `publication` it stands on that one for ever, with the definitions of its release, and answers of the layer `batch`.
    """

    tables: Tables
    publication: int | None = None
    _following: Following | Past = field(init=False, repr=False)
    _pinned: Snapshot | Failed | None = field(default=None, init=False, repr=False)
    _projects: dict[int, Project] = field(default_factory=dict, init=False, repr=False)
    _batches: dict[tuple[str, str], BatchStates] = field(default_factory=dict, init=False, repr=False)
    _runs: dict[tuple[int, str], Runs] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._following = Following(self.tables) if self.publication is None else Past(self.tables, self.publication)

    def refresh(self) -> Snapshot | Failed:
        """Pin the newest snapshot; see Following.refresh."""
        self._pinned = self._following.refresh()
        if isinstance(self._pinned, Snapshot):
            live = self._pinned.publication
            self._projects = {release: project for release, project in self._projects.items() if release == live.release}
            fingerprints = {(name, batch.fingerprint) for name, batch in live.views.items()}
            self._batches = {key: states for key, states in self._batches.items() if key in fingerprints}
            self._runs = {key: runs for key, runs in self._runs.items() if key[0] == live.release}
        return self._pinned

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
                self._projects[release] = load_files(releases.load(self.tables, release).files)
            except (NoRelease, DefinitionError) as error:
                raise ReadFailed(f"the definitions of release {release} cannot be used: {error}") from error
        return self._projects[release]

    def view(self, name: str) -> View:
        """A view of the published release by name. Raises UnknownView, ReadFailed, Unreadable."""
        views = self.project().views
        if name not in views:
            raise UnknownView(f"no view {name!r} is published; views: {listed(name, views)}")
        return views[name]

    def answer(
        self,
        view: str,
        *,
        keys: Mapping[str, object] | None = None,
        between: Between = ALWAYS,
        one: bool = False,
        layer: Layer = "merged",
        limit: int | None = None,
    ) -> Outcome:
        """What is known of a view at the pinned snapshot: its rows, the certainty that there are none, or why neither.

        `keys` gives values by key name, None for NULL; `between` bounds window starts, `[from, to)`; with `one` that range,
        made of the view's slices, is one window. `limit` keeps the first rows. Raises UnknownView and BadSelection for a
        question without a meaning.
        """
        if self.publication is not None and layer != "batch":
            raise BadSelection(
                f"publication {self.publication} is asked for what it has below its cut, which is the layer batch, not {layer}"
            )

        def selected(of: View) -> Selection:
            return select(of, keys or {}, between, one=one)

        try:
            return self._answer(view, selected, layer, limit)
        except ReadFailed as error:
            return Failed(str(error))
        except Unreadable:
            # An older publication's files may have been removed: perhaps another one is live.
            self.refresh()
        try:
            return self._answer(view, selected, layer, limit)
        except (ReadFailed, Unreadable) as error:
            return Failed(str(error))

    def arranged(self, view: str) -> Arranged | Failed:
        """All rows of a view at the pinned snapshot, with their states. Raises UnknownView, ReadFailed, Unreadable."""
        layer: Layer = "merged" if self.publication is None else "batch"
        return self._arranged(view, lambda of: select(of, {}, ALWAYS), layer)

    def _answer(self, name: str, selected: Callable[[View], Selection], layer: Layer, limit: int | None) -> Outcome:
        found = self._arranged(name, selected, layer)
        if isinstance(found, Failed):
            return found
        if not found.states.num_rows:
            return Absent(found.view, found.provenance)
        table = present_arranged(found.view, found.states.slice(0, limit), found.provenance.watermark)
        return Value(found.view, table, found.states.num_rows, found.provenance)

    def _arranged(self, name: str, selected: Callable[[View], Selection], layer: Layer) -> Arranged | Failed:
        snapshot, view = self.snapshot(), self.view(name)
        selection = selected(view)
        publication, tail = snapshot.publication, snapshot.tails[view.source.name]
        if tail.problem is not None:
            return Failed(f"view {name!r} cannot be answered exactly: {tail.problem}")
        if fingerprint(view) != publication.views[name].fingerprint:
            return Failed(
                f"view {name!r} was published by a Tandem that computes it otherwise; run `tandem apply --auto-promote`"
            )
        partials = []
        if layer != "speed":
            partials.append(self._below_the_cut(view, publication, tail, selection))
        if layer != "batch":
            partials += self._from_the_cut_on(view, publication, tail, selection)
        merged = merge(view, partials)
        rows = _rows(view, merged.states, selection)
        return Arranged(view, ordered(view, rows), _provenance(view, snapshot, layer, merged.rejected))

    def _below_the_cut(self, view: View, publication: Publication, tail: Tail, selection: Selection) -> Partial:
        live = publication.views[view.name]
        place = (view.name, live.fingerprint)
        if place not in self._batches:
            self._batches[place] = BatchStates(self.tables, self.tables.view(*place), state_schema(view))
        states = self._batches[place].read(live.parts, selection)
        return Partial(states, ranges(LOG_START, tail.cut), publication.rejected.get(view.name, {}))

    def _from_the_cut_on(self, view: View, publication: Publication, tail: Tail, selection: Selection) -> list[Partial]:
        place, live = (publication.release, view.name), publication.views[view.name]

        def decode(commit: Commit) -> Partial:
            try:
                states = from_ipc(commit.partials[live.fingerprint])
            except (KeyError, pa.ArrowException) as error:
                what = f"{self.tables.realtime(publication.release, view.source.name)}: [{commit.start}, {commit.end})"
                unreadable(what, error)
            return Partial(states, ranges(commit.start, commit.end), commit.rejected.get(live.fingerprint, {}))

        runs = self._runs[place] = follow(view, self._runs.get(place, ()), tail.commits, decode)
        return [Partial(selection.filter(p.states), p.ranges, p.rejected) for p in (run.partial for run in runs)]


def _rows(view: View, states: pa.Table, selection: Selection) -> pa.Table:
    """The rows that were asked for, of merged states."""
    if selection.one and selection.start is not None and selection.end is not None:
        return arrange_as_one(view, states, selection.start, selection.end)
    return selection.rows(arrange(view, states))


def _provenance(view: View, snapshot: Snapshot, layer: Layer, rejected: Mapping[str, int]) -> Provenance:
    publication, source = snapshot.publication, view.source.name
    live, tail = publication.views[view.name], snapshot.tails[source]
    start = tail.cut if layer == "speed" else LOG_START
    end = tail.cut if layer == "batch" else tail.end
    newest = {"batch": publication.newest.get(source), "speed": tail.newest, "merged": snapshot.newest(source)}[layer]
    return Provenance(
        layer=layer,
        publication=publication.number,
        release=publication.release,
        fingerprint=live.fingerprint,
        batch_version=live.version,
        cut=tail.cut,
        realtime=end,
        newest=newest,
        horizon=view.source.horizon if view.source.identity and layer != "batch" and tail.end != tail.cut else None,
        watermark=snapshot.watermark(source, at_the_cut=layer == "batch"),
        after_final=snapshot.after_final(view.name, source, layer=layer),
        approximate=approximations(view),
        rejected=rejected,
        gaps=touching(snapshot.gaps, source, start, end),
        compacted=view.source.compacted,
    )
