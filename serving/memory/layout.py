"""How the states and answers of a view are stored in memory, and which of them belong together.

The *unit* is what is replaced as a whole when any part of it changes. Where a state is an answer's row and windows are
independent (tumbling, calendar, all time), it is a key and window; else (hopping, sessions, windows in the order of the log) it
is a key with all its windows. A unit is identified by its hash, so two keys with one hash are one unit: they are merged and
presented together, each for itself, and only answers compare keys.
"""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pyarrow as pa

from tandem.serving.memory.index import Numbers
from tandem.serving.memory.key_hash import Hashes, KeyHash
from tandem.views.arrow import arrays
from tandem.views.measures.measure import only
from tandem.views.view import View, answer_schema, bind, state_schema
from tandem.views.windows import WINDOW_COLUMNS
from tandem.views.windows.placement import COMPLETE, WINDOW_STATE


@dataclass(frozen=True)
class MemoryLayout:
    """The layout of one view; `seed` is the key of its hashes."""

    view: View
    seed: int = field(repr=False)

    @cached_property
    def hash(self) -> KeyHash:
        """The hash of the view's keys."""
        return KeyHash(self.seed, tuple(self.states.field(name).type for name in self.view.keys))

    @cached_property
    def states(self) -> pa.Schema:
        """The columns of states."""
        return state_schema(self.view)

    @cached_property
    def answer(self) -> pa.Schema:
        """The columns of an answer."""
        return answer_schema(self.view)

    @cached_property
    def kept(self) -> pa.Schema:
        """The columns of answers as stored: with the columns that decide the label instead of the label, which moves with the
        watermark.
        """
        fields = [column for column in self.answer if column.name != WINDOW_STATE.name]
        return pa.schema([*fields, *([COMPLETE] if self.in_order else [])])

    @cached_property
    def in_order(self) -> bool:
        """Whether windows follow the order of the log."""
        return bind(self.view).placement.in_order

    @cached_property
    def timed(self) -> bool:
        """Whether windows have bounds."""
        return bind(self.view).placement.timing.bounded

    @cached_property
    def by_window(self) -> bool:
        """Whether a unit is a key and window, rather than a key with all its windows."""
        placement = bind(self.view).placement
        return placement.independent and placement.steps.arrange is None

    @cached_property
    def sessions(self) -> bool:
        """Whether a state of a window may start anywhere in it."""
        placement = bind(self.view).placement
        return not placement.independent and not placement.in_order

    @cached_property
    def told_apart(self) -> bool:
        """Whether realtime states may be part of some windows of a unit and not of others."""
        return bool(self.view.source.identity) and not self.by_window and not self.in_order

    @cached_property
    def shared(self) -> frozenset[str]:
        """The columns of answers that are columns of states too, and are stored once; only where both have the same rows."""
        if not self.by_window:
            return frozenset()
        own = {one.name for one in bind(self.view).measures if one.aggregate.present is not only}
        return frozenset(
            column.name
            for column in self.kept
            if column.name not in own and column.name in self.states.names and self.states.field(column.name).type == column.type
        )

    def fits(self, other: "MemoryLayout") -> bool:
        """Whether data stored by this layout fits the other, whose view means the same with other labels."""
        return self.seed == other.seed and self.states.equals(other.states) and self.kept.equals(other.kept)

    def hashes(self, table: pa.Table) -> Hashes:
        """The hash of each row's key."""
        if not self.view.keys:
            return np.full(table.num_rows, self.hash.of_key(()), np.uint64)
        return self.hash.of_columns([arrays.whole(table[name]) for name in self.view.keys])

    def starts(self, table: pa.Table) -> Numbers | None:
        """The start of each row's window, in microseconds; None if windows have no start time."""
        return arrays.integers(arrays.whole(table[WINDOW_COLUMNS[0]])) if self.timed else None
