"""The published views as the tables that statements read: each presented once per snapshot, then shared by all statements."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from ledger.delta import Unreadable
from serving.digits import narrowed
from serving.outcome import Failed, ReadFailed
from serving.provenance import Provenance
from serving.reader import Arranged, Reader, UnknownView
from serving.snapshot import Snapshot
from serving.sql.refused import Refused
from serving.sql.sandbox import Sandbox
from serving.sql.shared import Shared, share
from views import arrays
from views.present import present_arranged
from views.view import View, answer_schema, bind

SKETCHES = frozenset({"hll", "kll", "theta"})
"""The states that the functions of statements understand."""


@dataclass(frozen=True)
class Table:
    """A view as a table, and where its rows come from."""

    shared: Shared
    provenance: Provenance


@dataclass(frozen=True)
class Rows:
    """The result of a statement; `provenance` by view, of those that it names, all at one snapshot."""

    table: pa.Table
    provenance: Mapping[str, Provenance]

    def told(self, *, now: datetime) -> dict[str, Any]:
        """The `_provenance` of a result: whether everything it was made of is exact, the publication, and each view's own."""
        views = {name: one.to_json(now=now) for name, one in self.provenance.items()}
        publication = next((one.publication for one in self.provenance.values()), None)
        return {"publication": publication, "exact": all(one.exact for one in self.provenance.values()), "views": views}


@dataclass
class MergedViews:
    """The views of a reader, which is used by nobody else; for any number of threads.

    Statements read the snapshot that was pinned by the last `refresh`. Tables are made when a statement first names them, and
    kept as long as the snapshot is.
    """

    reader: Reader
    _of: Snapshot | None = field(default=None, init=False, repr=False)
    _tables: dict[str, Table] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def refresh(self) -> None:
        """Go on to the newest snapshot, if there is one that can be told."""
        with self._lock:
            self.reader.refresh()

    def views(self) -> Mapping[str, View]:
        """The published views by name. Raises ReadFailed, Unreadable."""
        with self._lock:
            return self.reader.project().views

    def tables(self, names: Sequence[str]) -> dict[str, Table]:
        """Views as tables at one snapshot. Raises Refused."""
        with self._lock:
            try:
                return self._at_one_snapshot(names)
            except UnknownView as error:
                raise Refused(str(error), "view") from error
            except ReadFailed as error:
                raise Refused(str(error), "failed") from error
            except Unreadable:
                # An older publication's files may have been removed: perhaps another one is live.
                self.reader.refresh()
            try:
                return self._at_one_snapshot(names)
            except (ReadFailed, Unreadable, UnknownView) as error:
                raise Refused(str(error), "failed") from error

    def _at_one_snapshot(self, names: Sequence[str]) -> dict[str, Table]:
        snapshot = self.reader.snapshot()
        if snapshot is not self._of:
            self._of, self._tables = snapshot, {}
        for name in names:
            if name not in self._tables:
                found = self.reader.arranged(name)
                if isinstance(found, Failed):
                    raise Refused(found.reason, "failed")
                self._tables[name] = Table(share(as_table(found)), found.provenance)
        return {name: self._tables[name] for name in names}


def ask(sandbox: Sandbox, views: MergedViews, statement: str, *, readable: Collection[str] | None = None) -> Rows:
    """What a statement says of the views; of those that are `readable`, if that is given: no others are there. Raises Refused."""
    readers = _Readable(views, readable)
    table = sandbox.run(statement, readers)
    return Rows(table, readers.read)


@dataclass
class _Readable:
    """What one statement may read, and where what it read came from."""

    views: MergedViews
    readable: Collection[str] | None
    read: dict[str, Provenance] = field(default_factory=dict)

    def names(self) -> list[str]:
        try:
            published = self.views.views()
        except (ReadFailed, Unreadable) as error:
            raise Refused(str(error), "failed") from error
        return [name for name in published if self.readable is None or name in self.readable]

    def share(self, names: Sequence[str]) -> dict[str, Shared]:
        tables = self.views.tables(names)
        self.read = {name: table.provenance for name, table in tables.items()}
        return {name: table.shared for name, table in tables.items()}


def table_schema(view: View) -> pa.Schema:
    """The columns of a view as a table: those of its answers, as wide as DuckDB has them, then the states of its sketches."""
    answers = [pa.field(field.name, narrowed(field.type)) for field in answer_schema(view)]
    return pa.schema([*answers, *(pa.field(name, pa.binary()) for name in state_names(view))])


def state_names(view: View) -> dict[str, str]:
    """The columns of sketches' states by their names in the table: `visitors_state`, with more underscores if that is taken."""
    taken = {name.casefold() for name in answer_schema(view).names}
    found = {}
    for measure in bind(view).measures:
        approximate = measure.aggregate.approximate
        if len(measure.columns) == 1 and approximate is not None and approximate.kind in SKETCHES:
            name = f"{measure.name}_state"
            while name.casefold() in taken:
                name += "_"
            taken.add(name.casefold())
            found[name] = measure.columns[0]
    return found


def as_table(found: Arranged) -> pa.Table:
    """A view's rows as table_schema(view) says, in the order of answers. Raises Refused for a number that DuckDB cannot hold."""
    presented = present_arranged(found.view, found.states, found.provenance.watermark)
    columns = [*presented.columns, *(found.states.column(column) for column in state_names(found.view).values())]
    fitting = []
    for column, wanted in zip(columns, table_schema(found.view), strict=True):
        try:
            fitting.append(arrays.whole(column).cast(wanted.type))
        except pa.ArrowInvalid as error:
            raise Refused(
                f"view {found.view.name!r} cannot be read by SQL: a {wanted.name} has more than 38 digits; `query` shows it",
                "failed",
            ) from error
    return arrays.table(fitting, table_schema(found.view))
