"""The views of a store as the tables that statements read: each is built once per snapshot, then shared by all statements."""

import re
import threading
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa

from tandem.ledger.delta.errors import Unreadable
from tandem.serving.access.fair_pool import FairPool
from tandem.serving.memory.cached_view import CachedView
from tandem.serving.memory.store import Pinned, Store
from tandem.serving.read.merged_layers import UnknownView
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.read.provenance import Provenance
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.tabular import Tabular, narrowed, row_count
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.messages import StatementRefused
from tandem.serving.sql.result_rows import to_rows
from tandem.serving.sql.sandbox import Sandbox
from tandem.serving.sql.shared_tables import SharedTables, share
from tandem.views.arrow import arrays
from tandem.views.composite.dated import DatedView
from tandem.views.exactness import together
from tandem.views.kernel.present import present_arranged
from tandem.views.view import View, answer_schema, bind

_SHOW_TABLES: Final = re.compile(r"\s*SHOW\s+TABLES\s*;?\s*", re.IGNORECASE)
SKETCHES = frozenset({"hll", "kll", "theta"})
"""Sketch states that functions of statements accept."""


@dataclass(frozen=True)
class ViewTable:
    """A view as a table, with its provenance; `of` identifies what it was built from, which never changes."""

    of: tuple[CachedView | Snapshot, int | None] = field(repr=False)
    shared: SharedTables
    provenance: Provenance


@dataclass(frozen=True, repr=False)
class MergedRows(Tabular):
    """The result of a statement; `provenance` is by named view, all at one snapshot: None if no view was read."""

    table: pa.Table
    provenance: Mapping[str, Provenance]
    snapshot: Snapshot | None = field(default=None, repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """The rows as dicts, as `tandem sql --json` prints them."""
        return to_rows(self.table)

    def caption(self) -> str:
        """Number of rows, and the publication, views and exactness that they are from."""
        names = ", ".join(f"{name} ({source.exactness.says})" for name, source in self.provenance.items())
        return f"SQL: {row_count(self.table.num_rows)}{f'; {names}' if names else ''}"

    def told(self, *, now: datetime) -> dict[str, Any]:
        """The `_provenance` of a result."""
        return self.summary({name: one.to_json(now=now) for name, one in self.provenance.items()})

    def summary(self, views: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """The publication, how exact the weakest value of the rows may be, and the provenance of each view."""
        publication = next((one.publication for one in self.provenance.values()), None)
        said = {name: one.exactness for name, one in self.provenance.items()}
        return {"publication": publication, "exactness": together(said), "views": dict(views)}


@dataclass
class MergedViews:
    """The views of a store, for any number of threads; the store's owner decides when it polls.

    All views of a statement are read at the newest snapshot, from memory where they fit. A table is built when a statement first
    names its view, and cached while the view's answers do not change.
    """

    store: Store
    _tables: dict[str, ViewTable] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def refresh(self) -> None:
        """Go on to the newest snapshot."""
        self.store.refresh()

    def views(self) -> Mapping[str, View]:
        """The published views by name. Raises ReadFailed."""
        return self.store.pinned().project.every_view

    def tables(self, names: Sequence[str]) -> tuple[dict[str, ViewTable], Snapshot]:
        """Views as tables, and the one snapshot at which they are. Raises Refused."""
        try:
            return self._at_one_snapshot(names)
        except UnknownView as error:
            raise StatementRefused(str(error), "view") from error
        except ReadFailed as error:
            raise StatementRefused(str(error), "failed") from error
        except Unreadable:
            # Files of an older publication may have been deleted: another one may be live.
            self.store.refresh()
        try:
            return self._at_one_snapshot(names)
        except (ReadFailed, Unreadable, UnknownView) as error:
            raise StatementRefused(str(error), "failed") from error

    def _at_one_snapshot(self, names: Sequence[str]) -> tuple[dict[str, ViewTable], Snapshot]:
        pinned = self.store.pinned()
        with self._lock:
            for name in names:
                self.store.use(name)
            known = {name: self._known(pinned, name) or self._made(pinned, pinned.view(name)) for name in names}
            kept = {name: table for name in self._tables if (table := self._known(pinned, name)) is not None}
            self._tables = kept | known
        return known, pinned.snapshot

    def _known(self, pinned: Pinned, name: str) -> ViewTable | None:
        """The cached table of a view, if the snapshot's answers are the same."""
        made, memory = self._tables.get(name), pinned.views.get(name)
        if made is None:
            return None
        if memory is None:
            return made if made.of == (pinned.snapshot, None) else None
        if made.of != (memory.answers.held, memory.answers.watermark):
            return None
        return replace(made, provenance=memory.provenance)

    def _made(self, pinned: Pinned, view: View) -> ViewTable:
        memory = self.store.in_memory(pinned, view)
        if memory is not None:
            answers = memory.answers
            rows = answers.with_states(state_names(view))
            return ViewTable((answers.held, answers.watermark), share(as_table(view, rows)), memory.provenance)
        found = self.store.arranged_from_files(pinned, view)
        if isinstance(found, Failed):
            raise StatementRefused(found.reason, "failed")
        rows = present_arranged(view, found.states, found.provenance.watermark)
        for name, column in state_names(view).items():
            rows = rows.append_column(name, found.states[column])
        return ViewTable((pinned.snapshot, None), share(as_table(view, rows)), found.provenance)


def ask(sandbox: Sandbox, views: MergedViews, statement: str, *, readable: Collection[str] | None = None) -> MergedRows:
    """The rows of a statement over the `readable` views; all views if that is None. `SHOW TABLES` lists them. Raises Refused."""
    readers = _Readable(views, readable)
    if _SHOW_TABLES.fullmatch(statement):
        names = readers.names()
        return MergedRows(_table_of_views([views.views()[name] for name in names]), {})
    table = sandbox.run(statement, readers)
    return MergedRows(table, readers.read, readers.snapshot)


def _table_of_views(views: Sequence[View]) -> pa.Table:
    """A row for each view: its name, source, keys and window."""
    rows = [(view.name, view.source.name, ", ".join(view.keys), str(view.window)) for view in views]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    titles = ("name", "source", "keys", "window")
    return pa.table({title: pa.array(column, pa.string()) for title, column in zip(titles, columns, strict=True)})


@dataclass
class _Readable:
    """The tables that one statement may read, and the provenance and the snapshot of those that it read."""

    views: MergedViews
    readable: Collection[str] | None
    read: dict[str, Provenance] = field(default_factory=dict)
    snapshot: Snapshot | None = None

    def names(self) -> list[str]:
        try:
            published = self.views.views()
        except (ReadFailed, Unreadable) as error:
            raise StatementRefused(str(error), "failed") from error
        return [name for name in published if self.readable is None or name in self.readable]

    def share(self, names: Sequence[str]) -> dict[str, SharedTables]:
        tables, self.snapshot = self.views.tables(names)
        self.read = {name: table.provenance for name, table in tables.items()}
        return {name: table.shared for name, table in tables.items()}


def table_schema(view: View) -> pa.Schema:
    """The columns of a view as a table: those of its answers, as wide as DuckDB has them, then the states of its sketches."""
    answers = [pa.field(field.name, narrowed(field.type)) for field in answer_schema(view)]
    return pa.schema([*answers, *(pa.field(name, pa.binary()) for name in state_names(view))])


def state_names(view: View) -> dict[str, str]:
    """The columns of sketch states by their names in the table: `visitors_state`, with more underscores if that is in use.

    None of a dated view.
    """
    taken = {name.casefold() for name in answer_schema(view).names}
    found = {}
    if isinstance(view, DatedView):
        return {}  # states of several definitions cannot be merged with each other
    for measure in bind(view).measures:
        approximate = measure.aggregate.approximate
        if len(measure.columns) == 1 and approximate is not None and approximate.kind in SKETCHES:
            name = f"{measure.name}_state"
            while name.casefold() in taken:
                name += "_"
            taken.add(name.casefold())
            found[name] = measure.columns[0]
    return found


def as_table(view: View, rows: pa.Table) -> pa.Table:
    """Rows with their states as table_schema(view) says, in order. Raises Refused for a number that DuckDB cannot hold."""
    fitting = []
    for column, wanted in zip(rows.columns, table_schema(view), strict=True):
        try:
            fitting.append(arrays.whole(column).cast(wanted.type))
        except pa.ArrowInvalid as error:
            raise StatementRefused(
                f"view {view.name!r} cannot be read by SQL: a {wanted.name} has more than 38 digits; `query` shows it",
                "failed",
            ) from error
    return arrays.table(fitting, table_schema(view))


@dataclass
class Statements:
    """Runs statements over the views of a store, which another task keeps current, while it is `open`.

    One principal runs at most one statement fewer than there are slots (`limits.at_once`), so that another principal finds a
    slot however long these take.
    """

    store: Store
    limits: StatementLimits
    _places: FairPool = field(init=False, repr=False)
    _sandbox: Sandbox = field(init=False, repr=False)
    _views: MergedViews = field(init=False, repr=False)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Run statements until the context ends; the first one starts the zygote, which takes a second or two."""
        self._sandbox = Sandbox(self.limits)
        self._views = MergedViews(self.store)
        self._places = FairPool("statement", self.limits.at_once, max(1, self.limits.at_once - 1))
        try:
            with self._places.open():
                yield
        finally:
            self._sandbox.close()

    async def run(self, statement: str, *, readable: Collection[str], by: str, among: MergedViews | None = None) -> MergedRows:
        """The rows of one SELECT over the `readable` views, at the newest snapshot, for a principal; `among` are the views of
        another store. Raises Refused.
        """
        run = partial(ask, self._sandbox, among or self._views, statement, readable=readable)
        return await self._places.run(by, run)
