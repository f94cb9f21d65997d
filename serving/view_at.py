"""One view at one snapshot: rows by key, by range, and of many keys, each with its provenance.

Its answers never change, whatever is committed or published meanwhile, and any thread may ask.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tandem.serving.memory.answers import Key, Labelled, Row
from tandem.serving.memory.changes_token import token_of
from tandem.serving.memory.key_values import key_of, keys_of
from tandem.serving.memory.store import InMemory
from tandem.serving.read.outcome import Absent, Outcome, ReadFailed, Value, answered, given
from tandem.serving.read.provenance import Layer, Provenance
from tandem.serving.read.selection import ALWAYS, Among, BadSelection, Between, Selection, select
from tandem.serving.read.touched_rows import TOUCHED, split
from tandem.views.instant import EPOCH, MICROSECOND, microseconds
from tandem.views.view import View, bind, state_schema
from tandem.views.windows import Hopping

AT: Final = "at"
"""The option of a question about one row that names a time, unless the view has a key of this name."""

Files = Callable[[Selection, Layer, int | None], Outcome]
"""A function that answers a selection of a layer from the view's tables, the first rows up to a limit."""


@dataclass(frozen=True, eq=False)
class ViewAt:
    """`view` at a snapshot: from `memory` if it has the view, else from files; `layer` is the default layer."""

    view: View
    memory: InMemory | None
    files: Files = field(repr=False)
    layer: Layer = "merged"

    @cached_property
    def provenance(self) -> Provenance:
        """The provenance of every answer of the layer. Raises ReadFailed, Unreadable."""
        if self.memory is not None:
            return self.memory.provenance
        return given(self.files(select(self.view, {}, ALWAYS), self.layer, 0)).provenance

    @property
    def token(self) -> str:
        """The token from which `changes` continues after this snapshot. Raises ReadFailed for a view that is not in memory."""
        if self.memory is None:
            raise ReadFailed(f"view {self.view.name!r} is read from its files, so its changes cannot be reported")
        return str(token_of(self.memory.answers.held))

    def get(self, keys: Mapping[str, object] | None = None, /, *, window: datetime | None = None, **named: object) -> Row | None:
        """The one row of a key, with a value for each key of the view, and of the window that starts at `window`.

        None is the certainty that nothing was counted. Views of all time take no window. Of a table, `at=` gives the version
        that was valid then; in a view with a key `at`, that is the key's value. Raises BadSelection for an invalid key, window
        or time, ReadFailed and Unreadable if the view cannot be answered.
        """
        at = None if AT in self.view.keys else named.pop(AT, None)
        key = key_of(self.view, self._types, named if keys is None else {**keys, **named})
        start = self._start(window)
        memory = self.memory if at is None else None
        found = memory.answers.row(key, start) if memory is not None else self._from_files(key, window, at)
        if found is None:
            self._refuse_no_window(window)
        return found

    def lookup(self, keys: Iterable[Any], *, at: datetime | None = None) -> Value | Absent:
        """The rows of all windows of many keys, in the order of any answer; keys without a row are left out.

        Each key is a mapping with a value for every key of the view, or its bare value if the view has one key. `at` gives the
        versions of a table that were valid then.
        """
        asked = keys_of(self.view, self._types, keys)
        if self.memory is not None and at is None:
            answers = self.memory.answers
            return _outcome(self.view, self.memory, answers.of_keys(asked) if asked else answers.labelled([]))
        among = Among(dict(zip(self.view.keys, self._types, strict=True)), frozenset(asked))
        return given(self.files(replace(select(self.view, {}, ALWAYS, at=at), among=among), self.layer, None))

    def scan(
        self,
        keys: Mapping[str, object] | None = None,
        *,
        between: Between = ALWAYS,
        one: bool = False,
        at: datetime | None = None,
        layer: Layer | None = None,
        limit: int | None = None,
    ) -> Value | Absent:
        """The rows with these values of some keys, None for NULL, and of windows that start in `between`, `[from, to)`.

        With `one` the range is one window; `at` gives the versions of a table that were valid then; a `limit` keeps the first
        rows. Raises BadSelection for an invalid question, ReadFailed and Unreadable if the view cannot be answered.
        """
        return selected(self, select(self.view, keys or {}, between, one=one, at=at), layer=layer, limit=limit)

    @cached_property
    def _types(self) -> tuple[pa.DataType, ...]:
        states = state_schema(self.view)
        return tuple(states.field(name).type for name in self.view.keys)

    @cached_property
    def _nameable(self) -> bool:
        return not bind(self.view).placement.in_order

    def _start(self, window: datetime | None) -> int | None:
        """The window's start in microseconds, None of all time. Raises BadSelection."""
        if not self._nameable:
            raise BadSelection(
                f"windows of view {self.view.name!r} follow the order of the log and have no start time; scan(keys) returns all "
                "windows of a key"
            )
        if not bind(self.view).placement.timing.bounded:
            if window is not None:
                select(self.view, {}, (window, None))
            return None
        if window is None:
            raise BadSelection(
                f"a row of view {self.view.name!r} needs window=, the start of its window; scan(keys) returns all windows"
            )
        if type(window) is not datetime or window.tzinfo is None:
            select(self.view, {}, (window, None))
        return microseconds(window)

    def _from_files(self, key: Key, window: datetime | None, at: Any) -> Row | None:
        between = ALWAYS if window is None else (window, window + MICROSECOND)
        chosen = select(self.view, dict(zip(self.view.keys, key, strict=True)), between, at=at)
        rows = given(self.files(chosen, self.layer, None)).rows()
        return rows[0] if rows else None

    def _refuse_no_window(self, window: datetime | None) -> None:
        """Raise BadSelection for a time at which no window of the view starts."""
        slice_at = bind(self.view).placement.timing.slice_at
        if window is None or slice_at is None:
            return
        of = self.view.window
        if slice_at(window)[0] == window and not (isinstance(of, Hopping) and (window - EPOCH) % of.every):
            return
        raise BadSelection(f"no window of view {self.view.name!r} starts at {window.isoformat()}: its windows are {of}")


def selected(at: ViewAt, selection: Selection, *, layer: Layer | None = None, limit: int | None = None) -> Value | Absent:
    """The rows that a selection takes, the first ones up to a limit. Raises ReadFailed, Unreadable."""
    layer = layer or at.layer
    if at.memory is None or layer != "merged" or selection.one or selection.at is not None:
        return given(at.files(selection, layer, limit))
    answers, view = at.memory.answers, at.view
    if view.keys and selection.keys.keys() == view.keys.keys():
        every = answers.of_keys([tuple(selection.keys[name].as_py() for name in view.keys)])
        found = replace(selection, reach=None).rows(every.table.append_column(TOUCHED, every.touched))
        rows, touched = split(found.slice(0, limit))
        return answered(view, rows, touched, at.memory.provenance, total=found.num_rows)
    return _outcome(view, at.memory, answers.select(selection, limit=limit))


def _outcome(view: View, memory: InMemory, found: Labelled) -> Value | Absent:
    return answered(view, found.table, found.touched, memory.provenance, total=found.total)
