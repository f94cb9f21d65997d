"""What a connection caches: the newest snapshot, and the views that were used last.

One thread at a time polls for new snapshots; any number of threads read. Readers see one `Pinned` after another, each installed
by one assignment. A `Pinned` changes only when a view is loaded later, at the position of the `Pinned`. So no reader waits for
another, and no answer mixes two publications. New states are built beside the cached ones, which stay valid for their readers.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.serving.memory.answers import Answers
from tandem.serving.memory.cached_view import (
    CachedView,
    OutgrowsMemory,
    Recent,
    RowsInMemory,
    ViewOrigin,
    followed,
    loaded,
    rows_in_memory,
)
from tandem.serving.memory.filed_view import Below, FiledView
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.read.merged_layers import Arranged, Keep, Reader, UnknownView, has_own_states, refusal
from tandem.serving.read.outcome import Failed, Outcome, ReadFailed
from tandem.serving.read.provenance import Layer, Provenance
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.selection import Selection
from tandem.serving.read.snapshot import Snapshot, has_view, provenance_of, rejected
from tandem.serving.read.snapshot_follower import Hot
from tandem.serving.read.states import BatchStates, ReadCache
from tandem.serving.read.touched_rows import marks_tail
from tandem.views.composite.current_rows import RowsView
from tandem.views.errors import TooLong, listed
from tandem.views.project.project import Project
from tandem.views.view import View

MEMORY: Final = 2**30
"""The default limit of cached bytes."""
SHARE_OF_READS: Final = 8
"""The share of this limit that what is read of files may use besides."""
USED_S: Final = 2.0
"""Seconds after its last use for which a view advances with hot commits; else it advances with polls, and when it is asked."""


@dataclass(frozen=True, eq=False)
class InMemory:
    """A view of a snapshot that is in memory, with the provenance of all its answers."""

    answers: Answers
    provenance: Provenance


@dataclass(frozen=True, eq=False)
class Pinned:
    """A snapshot, its definitions, and those of its views that are in memory."""

    snapshot: Snapshot
    project: Project
    views: Mapping[str, InMemory] = field(default_factory=dict, repr=False)

    def view(self, name: str) -> View:
        """A view by name. Raises UnknownView."""
        views = self.project.every_view
        if name not in views:
            raise UnknownView(f"no view {name!r} {self.snapshot.lacks}; views: {listed(name, views)}")
        return views[name]


@dataclass(frozen=True)
class StatesBelow:
    """The states of a batch view in files, read by one thread at a time."""

    files: BatchStates
    batch: BatchView
    lock: threading.Lock

    def states(self, selection: Selection, slots: range) -> pa.Table:
        """The selected states of some hash slots. Raises Unreadable."""
        with self.lock:
            return self.files.read(self.batch.parts, selection, slots)

    def pieces(self) -> list[range]:
        """Ranges of all slots of whose states one after the other fits in memory. Raises Unreadable."""
        with self.lock:
            return self.files.pieces(self.batch.parts)


@dataclass
class Store:
    """Follows a project's tables with at most `memory` bytes of views; `seed` is the key of the hashes by which rows are found.

    A view that alone needs more is read from its files for each question. While a view is rebuilt, both copies use memory; the
    former one also while `recent` keeps it, from which clients of changes continue. With `hot`, hot commits continue the realtime
    tables. With `asked` it follows that release as if it were promoted now.
    """

    tables: Tables
    seed: int = field(repr=False)
    memory: int = MEMORY
    hot: Hot | None = None
    recent: Recent = field(default_factory=Recent, repr=False)
    asked: IfPromoted | None = None
    clock: Callable[[], float] = time.monotonic
    _pinned: Pinned | Failed | None = field(default=None, init=False, repr=False)
    _held: dict[str, CachedView] = field(default_factory=dict, init=False, repr=False)
    _outgrown: dict[str, BatchView] = field(default_factory=dict, init=False, repr=False)
    _in_files: dict[str, tuple[Snapshot, InMemory]] = field(default_factory=dict, init=False, repr=False)
    _used: dict[str, float] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        self._news, self._closed = threading.Condition(), False
        self._following, self._looks = Reader(self.tables, hot=self.hot, asked=self.asked), threading.RLock()
        self._files, self._reads = Reader(self.tables, cache=ReadCache(self.memory // SHARE_OF_READS)), threading.Lock()

    def pinned(self) -> Pinned:
        """The newest snapshot; the first call polls. Raises ReadFailed."""
        pinned = self._pinned
        if pinned is None:
            pinned = self.refresh()
        if isinstance(pinned, Failed):
            raise ReadFailed(pinned.reason)
        return pinned

    def refresh(self) -> Pinned | Failed:
        """Poll for a new snapshot, and advance the views in memory to it; see SnapshotFollower.refresh."""
        with self._looks:
            return self._at(self._following.refresh())

    def refresh_hot(self) -> Pinned | None:
        """Advance to the newest hot commits without a read of tables; None if they have to be polled, as by `refresh`."""
        with self._looks:
            found = self._following.refresh_hot() if isinstance(self._pinned, Pinned) else None
            pinned = None if found is None else self._at(found, used_since=self.clock() - USED_S)
            return pinned if isinstance(pinned, Pinned) else None

    def _at(self, found: Snapshot | Failed, *, used_since: float = float("-inf")) -> Pinned | Failed:
        """Install a snapshot, with the views in memory that were used since then advanced to it."""
        if isinstance(found, Failed):
            self._pinned = found
        else:
            if isinstance(self._pinned, Pinned) and self._pinned.snapshot == found:
                return self._pinned
            try:
                pinned = Pinned(found, self._following.project())
            except (ReadFailed, Unreadable) as error:
                self._pinned = Failed(str(error))
            else:
                self._pinned = replace(pinned, views=self._all_brought(pinned, used_since))
        with self._news:
            self._news.notify_all()
        return self._pinned

    def after(self, pinned: Pinned, seconds: float | None = None) -> Pinned | None:
        """The next snapshot after this one, or this one if that many seconds bring none; None once the store is closed.

        Raises ReadFailed.
        """

        def other() -> bool:
            newest = self._pinned
            return self._closed or not isinstance(newest, Pinned) or newest.snapshot is not pinned.snapshot

        with self._news:
            self._news.wait_for(other, seconds)
        return None if self._closed else self.pinned()

    def close(self) -> None:
        """Wake all threads that wait for a snapshot."""
        self._closed = True
        with self._news:
            self._news.notify_all()

    @property
    def outgrown(self) -> frozenset[str]:
        """The views that need more memory than the limit."""
        return frozenset(self._outgrown)

    def in_memory(self, pinned: Pinned, view: View) -> InMemory | None:
        """The view at exactly that snapshot; None if it has to be read from its files. Raises ReadFailed, Unreadable."""
        self.use(view.name)
        if (there := pinned.views.get(view.name)) is not None:
            return there
        if (problem := refusal(pinned.snapshot, view)) is not None:
            raise ReadFailed(problem)
        with self._looks:
            newest = self._pinned
            if not isinstance(newest, Pinned):
                return None
            if newest.snapshot is not pinned.snapshot:
                waits = view.name in self._held and view.name not in newest.views  # so it is not beyond this snapshot
                return self._brought(pinned, view) if waits else None
            if view.name not in newest.views and (brought := self._brought(newest, view)) is not None:
                newest = self._pinned = replace(newest, views=self._within({**newest.views, view.name: brought}, view.name))
            return newest.views.get(view.name)

    def in_files(self, pinned: Pinned, view: View) -> InMemory:
        """A view that memory has no room for, at a snapshot, for its changes.

        Raises Unreadable, and ReadFailed, also if what is above the cut needs too much, or rows are made of other views' states.
        """
        self.use(view.name)
        try:
            if has_own_states(view):
                return self._in_files_at(pinned, view)
        except OutgrowsMemory:
            pass
        raise ReadFailed(f"reporting changes of view {view.name!r} needs more memory than the available {self.memory} bytes")

    def _in_files_at(self, pinned: Pinned, view: View) -> InMemory:
        if (problem := refusal(pinned.snapshot, view)) is not None:
            raise ReadFailed(problem)
        with self._looks:
            snapshot, there = self._in_files.get(view.name, (None, None))
            if there is not None and snapshot is pinned.snapshot:
                return there
            at = pinned.snapshot.of(view)
            batch, tail, layout = at.batch(view), at.tails[view.source.name], MemoryLayout(view, self.seed)
            before = None if there is None else there.answers.held
            if before is None or before.batch.fingerprint != batch.fingerprint or not before.layout.fits(layout):
                release, opened = at.publication.release, partial(self._below, view)
                before = FiledView(layout, release, batch, tail.cut, tail.cut, (), opened=opened, files=opened(batch))
            origin = ViewOrigin(self.tables, at.publication.release, self.memory)
            before = before if before.layout.view is view else replace(before, layout=layout)
            memory = self._answers(pinned.snapshot, view, followed(origin, before, batch, tail))
            self._in_files[view.name] = pinned.snapshot, memory
            return memory

    def _below(self, view: View, batch: BatchView) -> Below:
        return StatesBelow(
            BatchStates(self.tables, batch.address(self.tables, view.name), view, self._files.cache), batch, self._reads
        )

    def _answers(self, snapshot: Snapshot, view: View, cached: CachedView) -> InMemory:
        provenance = provenance_of(snapshot, view, "merged", rejected(snapshot, view))
        marked = replace(cached, late=snapshot.late(view), tail_marked=marks_tail(provenance.exactness))
        return InMemory(Answers(marked, snapshot.of(view).watermark(view.source.name), provenance.exactness.marks), provenance)

    def use(self, view: str) -> None:
        """Record the use of a view: the least recently used views are evicted, and hot commits come faster while any is used."""
        self._used[view] = self.clock()
        if self.hot is not None:
            self.hot.asked()

    def from_files(
        self,
        snapshot: Snapshot,
        view: View,
        selection: Selection,
        layer: Layer,
        limit: int | None,
        *,
        keep: Keep | None = None,
    ) -> Outcome:
        """The kernel's answer from the view's tables at exactly that snapshot, one question at a time. Raises Unreadable."""
        with self._reads:
            return self._files.answer_at(snapshot, view, selection, layer, limit, keep=keep)

    def arranged_from_files(self, pinned: Pinned, view: View) -> Arranged | Failed:
        """All rows of the view with their states, from its tables. Raises Unreadable."""
        with self._reads:
            return self._files.arranged_at(pinned.snapshot, view)

    def _all_brought(self, pinned: Pinned, used_since: float) -> dict[str, InMemory]:
        """The cached views that were used since then at a new snapshot.

        Others, and a view that cannot be read, advance at their next use.
        """
        brought: dict[str, InMemory] = {}
        views = pinned.project.every_view
        self._held = {
            name: one for name, one in self._held.items() if name in views and has_view(pinned.snapshot.publication, views[name])
        }
        for name in [name for name in self._held if self._used.get(name, float("-inf")) >= used_since]:
            try:
                view = self._brought(pinned, views[name])
            except Unreadable:
                continue
            except (Exception, TooLong):  # noqa: BLE001  whatever it is, the other views advance, and the next caller gets it
                del self._held[name]
                continue
            if view is not None:
                brought[name] = view
        return self._within(brought, None)

    def _brought(self, pinned: Pinned, view: View) -> InMemory | None:
        """The view at a snapshot, advanced from the cache or loaded; None if it has no answer or needs too much memory."""
        snapshot, source = pinned.snapshot, view.source.name
        if refusal(snapshot, view) is not None:
            return None
        own = snapshot.of(view)
        batch, tail = own.batch(view), own.tails[source]
        if self._outgrown.get(view.name) == batch:
            return None
        if isinstance(view, RowsView):
            return self._of_rows(pinned, view, batch, tail)
        origin, layout = ViewOrigin(self.tables, snapshot.publication.release, self.memory), MemoryLayout(view, self.seed)
        held = self._held.get(view.name)
        try:
            if held is not None and held.batch.fingerprint == batch.fingerprint and held.layout.fits(layout):
                held = followed(origin, held if held.layout.view is view else replace(held, layout=layout), batch, tail)
            else:
                held = loaded(origin, layout, batch, tail)
        except OutgrowsMemory:
            self._outgrown[view.name] = batch
            self._held.pop(view.name, None)
            return None
        self._held[view.name] = held
        self._outgrown.pop(view.name, None)
        return self._answers(snapshot, view, held)

    def _of_rows(self, pinned: Pinned, view: RowsView, batch: BatchView, tail: RealtimeTail) -> InMemory | None:
        """A view of a table's rows at a snapshot, folded of the table in memory; None if that has no answer there."""
        snapshot, table = pinned.snapshot, self._brought(pinned, view.parent)
        if table is None:
            return None
        cached = self._held.get(view.name)
        if not (isinstance(cached, RowsInMemory) and cached.stands_at(snapshot.publication.release, batch, tail)):
            cached = rows_in_memory(view, batch, table.answers.held)
        self._held[view.name] = cached
        source, counted = view.parent.source.name, dict(Counter(rejected(snapshot, view)) + Counter(cached.rejected))
        provenance = provenance_of(snapshot, view, "merged", counted)
        marked = replace(cached, tail_marked=marks_tail(provenance.exactness))
        return InMemory(Answers(marked, snapshot.of(view).watermark(source), provenance.exactness.marks), provenance)

    def _within(self, views: dict[str, InMemory], newest: str | None) -> dict[str, InMemory]:
        """The views that fit in the limit: the least recently used are evicted, `newest` stays."""
        while len(self._held) > 1 and sum(one.nbytes for one in self._held.values()) > self.memory:
            oldest = min((name for name in self._held if name != newest), key=lambda name: self._used.get(name, float("-inf")))
            del self._held[oldest]
            views.pop(oldest, None)
        return views
