"""Answers in a Python program: `connect("my_shop").view("sales").get(city="OSLO", window=eight)`.

A connection follows the project's tables in a thread of its own, so that questions are answered from memory: it polls for
commits and publications every `every_s` seconds. Any thread may ask.
"""

import os
import secrets
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from tandem.infra import settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.serving.changes import Changes, changes
from tandem.serving.memory.answers import Row
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.memory.store import Pinned, Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Failed, Outcome, ReadFailed, Value
from tandem.serving.read.provenance import Layer
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.read.selection import ALWAYS, Between, Selection
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.sql.limits import MIB, StatementLimits
from tandem.serving.sql.merged_views import MergedRows, MergedViews, ask
from tandem.serving.sql.sandbox import Sandbox
from tandem.serving.view_at import ViewAt

EVERY_S: Final = 0.2
"""Default seconds between two polls of a connection: less than a micro-batch takes."""

SQL_LIMITS: Final = StatementLimits(seconds=60, memory=1024 * MIB, rows=1_000_000, bytes=1024 * MIB)
"""Limits of a statement in a program: the defaults of `tandem sql`."""

_T = TypeVar("_T")


@dataclass(eq=False)
class Connection:
    """The published views of one project. `close` it, or use it in a `with`, to end its thread; without a thread, `refresh`
    polls.

    The thread also ends once neither the connection nor a view of it is referenced.
    """

    store: Store
    _over: threading.Event = field(default_factory=threading.Event, init=False, repr=False)
    _thread: threading.Thread | None = field(default=None, init=False, repr=False)
    _broken: list[BaseException] = field(default_factory=list, init=False, repr=False)
    _asked: tuple[Pinned, dict[str, ViewAt]] | None = field(default=None, init=False, repr=False)
    _statements: tuple[Sandbox, MergedViews] | None = field(default=None, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def follow(self, every_s: float) -> Self:
        """Poll every N seconds, until it is closed."""
        weakref.finalize(self, self._over.set)
        how = (self.store, every_s, self._over, self._broken)
        self._thread = threading.Thread(target=_follow, args=how, name="tandem-connection", daemon=True)
        self._thread.start()
        return self

    def refresh(self) -> Snapshot | Failed:
        """Poll now."""
        found = self.store.refresh()
        return found.snapshot if isinstance(found, Pinned) else found

    def pinned(self) -> Pinned:
        """The snapshot that answers use now. Raises ReadFailed if nothing can be read."""
        if self._broken:
            raise ReadFailed(
                f"the connection stopped polling its tables after an internal error: {self._broken[0]!r}"
            ) from self._broken[0]
        return self.store.pinned()

    def snapshot(self) -> "AtOneSnapshot":
        """All views at one moment: every answer of it counts the log up to the same position. Raises ReadFailed."""
        return AtOneSnapshot(self.store, self.pinned())

    def view(self, name: str) -> "PublishedView":
        """A view by name. Raises UnknownView, and ReadFailed if nothing can be read."""
        self.pinned().view(name)
        return PublishedView(self, name)

    def view_now(self, name: str) -> ViewAt:
        """A view as it is now. Raises UnknownView, ReadFailed, Unreadable."""
        pinned = self.pinned()
        asked = self._asked
        if asked is None or asked[0] is not pinned:
            # What memory had no room for, or is of an earlier snapshot, is released.
            asked = self._asked = pinned, {}
        if (known := asked[1].get(name)) is not None:
            self.store.use(name)
            return known
        view = AtOneSnapshot(self.store, pinned).view(name)
        if view.memory is not None:
            asked[1][name] = view
        return view

    def sql(self, statement: str) -> MergedRows:
        """The rows of one SELECT in DuckDB's SQL over the views, each a table, all at one snapshot; see docs/sql.md.

        The first statement starts a process, which takes a second or two. Raises StatementRefused.
        """
        self.pinned()
        with self._lock:
            if self._statements is None:
                sandbox = Sandbox(SQL_LIMITS)
                weakref.finalize(self, sandbox.close)
                self._statements = sandbox, MergedViews(self.store)
        return ask(*self._statements, statement)

    def close(self) -> None:
        """Stop following; views that were read stay usable."""
        self._over.set()
        with self._lock:
            if self._statements is not None:
                self._statements[0].close()
                self._statements = None
        self.store.close()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _follow(store: Store, every_s: float, over: threading.Event, broken: list[BaseException]) -> None:
    try:
        while not over.wait(every_s):
            store.refresh()
    except BaseException as error:  # noqa: BLE001  the next question raises it
        broken.append(error)


@dataclass(frozen=True, eq=False)
class AtOneSnapshot:
    """The views of a project at one snapshot.

    A view that is first used after the connection has moved on is read from its files for each question: then its quantiles,
    which differ from merge to merge, may differ from question to question.
    """

    store: Store
    pinned: Pinned
    _views: dict[str, ViewAt] = field(default_factory=dict, init=False, repr=False)

    def view(self, name: str) -> ViewAt:
        """A view by name. Raises UnknownView, ReadFailed, Unreadable."""
        if name in self._views:
            return self._views[name]
        view = self.pinned.view(name)

        def files(selection: Selection, layer: Layer, limit: int | None) -> Outcome:
            return self.store.from_files(self.pinned.snapshot, view, selection, layer, limit)

        # What memory releases later stays with this snapshot.
        return self._views.setdefault(name, ViewAt(view, self.store.in_memory(self.pinned, view), files))


@dataclass(frozen=True)
class PublishedView:
    """One published view; every question is answered at the newest position that the connection knows."""

    connection: Connection
    name: str

    def now(self) -> ViewAt:
        """The view at that position, for several questions at the same one. Raises ReadFailed."""
        return self._asked(lambda view: view)

    def get(self, keys: Mapping[str, object] | None = None, /, *, window: datetime | None = None, **named: object) -> Row | None:
        """The one row of a key and of the window that starts at `window`, of a table with `at=` a time's; see ViewAt.get."""
        return self._asked(lambda view: view.get(keys, window=window, **named))

    def lookup(self, keys: Iterable[Any], *, at: datetime | None = None) -> Value | Absent:
        """The rows of many keys; see ViewAt.lookup."""
        asked = [*keys]
        return self._asked(lambda view: view.lookup(asked, at=at))

    def scan(
        self,
        keys: Mapping[str, object] | None = None,
        *,
        between: Between = ALWAYS,
        one: bool = False,
        at: datetime | None = None,
        layer: Layer = "merged",
        limit: int | None = None,
    ) -> Value | Absent:
        """The rows with these values of keys and of windows that start in a range; see ViewAt.scan."""
        return self._asked(lambda view: view.scan(keys, between=between, one=one, at=at, layer=layer, limit=limit))

    def rows(
        self,
        keys: Mapping[str, object] | None = None,
        *,
        between: Between = ALWAYS,
        at: datetime | None = None,
        layer: Layer = "merged",
        limit: int | None = None,
    ) -> list[Row]:
        """The rows as flat dicts, ordered by window start, then keys; none if nothing was counted. Raises ReadFailed."""
        return self.scan(keys, between=between, at=at, layer=layer, limit=limit).rows()

    def ask(
        self,
        keys: Mapping[str, object] | None = None,
        *,
        between: Between = ALWAYS,
        layer: Layer = "merged",
        limit: int | None = None,
    ) -> Outcome:
        """The rows as an Arrow table with their provenance, the certainty that there are none, or why neither.

        `keys` gives values by key name, None for NULL; `between` bounds window starts, `[from, to)`.
        """
        try:
            return self.scan(keys, between=between, layer=layer, limit=limit)
        except ReadFailed as error:
            return Failed(str(error))

    def changes(
        self,
        since: str | None = None,
        *,
        keys: Mapping[str, object] | None = None,
        where: str | None = None,
        measures: Sequence[str] | None = None,
        output: str = "update",
        late: str = "send",
        when: str = "commit",
    ) -> Iterator[Changes]:
        """Rows as they change from snapshot to snapshot, from a token or from now on; waits until the connection is closed.

        To read all rows and then their changes: `now = view.now()`, then `now.scan()`, then `view.changes(now.token)`. `keys` and
        `where`, a condition over the columns of an answer, choose rows: a row that leaves them is in `gone`, and a row that
        enters them is in `rows`. With `measures` rows have these alone, and a row of which only others changed is not sent.
        Continue with the same ones. The `output` says which changes are sent:

        * `update`: rows with their present values in `rows`, deleted ones in `gone`.
        * `append`: a row once, in `rows`, when its window is final. A row that changes after that is in `late`, or counted there
          with `late="drop"`. Without a token it begins with all final rows.
        * `changes`: as update, with `envelopes()` of each row before and after. Without a token it begins with all rows.

        `when` says after which commits an update comes: `commit`, each; `every:10s`, whenever the log's time passes a multiple of
        this; `delay:10s`, this long after the first change that the reader lacks; `count:100`, after at least this many records.
        The log's time is that of the newest record's append, and continues by the clock of this process while none comes.

        Raises tandem.client.TokenGone, BadSelection, and ReadFailed if nothing can be read; continue from the last token then.
        """
        token = None if since is None else ChangesToken.parse(since)
        wanted = RowsWanted(keys or {}, where, measures, output=output, late=late, when=when)
        return changes(self.connection.store, self.name, token, wanted)

    def at(self, *, publication: int) -> ViewAt:
        """The view of a past publication below its cut, while that is retained; for one thread at a time.

        Raises UnknownView, and ReadFailed, which names the retained publications.
        """
        reader = Reader(self.connection.store.tables, publication)
        snapshot, view = reader.snapshot(), reader.view(self.name)
        return ViewAt(view, None, partial(reader.answer_at, snapshot, view), "batch")

    def _asked(self, question: Callable[[ViewAt], _T]) -> _T:
        try:
            return question(self.connection.view_now(self.name))
        except Unreadable:
            # Files of an older publication may have been deleted: another one may be live.
            self.connection.refresh()
        try:
            return question(self.connection.view_now(self.name))
        except Unreadable as error:
            raise ReadFailed(str(error)) from error


def connect(
    project: str | Path, *, every_s: float | None = EVERY_S, memory: int | None = None, release: int | None = None
) -> Connection:
    """The published views of the project in a folder, with its settings; neither Spark nor the broker is needed.

    It polls every `every_s` seconds, with None only on `refresh`, and caches at most `memory` bytes of views, by default
    `serving.memory_mb`. With a `release` it answers as if that ready or standing release were promoted now; questions raise
    ReadFailed with the reason if it cannot be asked.
    """
    found = settings.load(Path(project), os.environ)
    most = found.serving.memory_mb << 20 if memory is None else memory
    tables = Tables.of(found)
    asked = None if release is None else IfPromoted(tables, release, found.keep.release_days)
    connection = Connection(Store(tables, secrets.randbits(64), most, asked=asked))
    return connection if every_s is None else connection.follow(every_s)
