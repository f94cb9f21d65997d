"""A view whose states below the cut stay in files: only what is above the cut is in memory, by itself.

For its changes some of its keys, or a range of hash slots, are read as a view in memory. So changes are compared, labelled and
marked by the same code as those of a view that memory has room for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from tandem.ledger.hash_slots import EVERY
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchView
from tandem.serving.memory.cached_view import CachedView
from tandem.serving.memory.differences import Differences, differences
from tandem.serving.memory.layer import whole
from tandem.serving.memory.stack import Stack, extended, live_states, states_of_keys
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.row_filter import RowFilter
from tandem.serving.read.selection import Among, Selection
from tandem.serving.read.states import in_slots

PIECE: Final = 1 << 12
"""Keys whose rows are compared at once."""


class Below(Protocol):
    """The states of a batch view in files."""

    def states(self, selection: Selection, slots: range) -> pa.Table:
        """The selected states of some hash slots. Raises Unreadable."""

    def pieces(self) -> list[range]:
        """Ranges of all slots of whose states one after the other fits in memory. Raises Unreadable."""


@dataclass(frozen=True, eq=False)
class FiledView(CachedView):
    """A view of which `tail` and `hot` have what is above the cut by itself, and `files` what is below it.

    `opened` gives the states of another batch view of the same table.
    """

    opened: Callable[[BatchView], Below] = field(kw_only=True, repr=False)
    files: Below = field(kw_only=True, repr=False)

    def below_of(self, keys: pa.Table) -> pa.Table:
        """The states of some keys in files. Raises Unreadable."""
        columns = {name: keys.schema.field(name).type for name in keys.column_names}
        every = frozenset(zip(*(keys[name].to_pylist() for name in columns), strict=True))
        selection = Selection(reach=None, among=Among(columns, every))
        return selection.rows(self.files.states(selection, EVERY))

    def of_keys(self, keys: pa.Table, below: pa.Table) -> CachedView:
        """The rows of some keys, which are distinct and have these states in files, as a view in memory."""
        hashes = np.unique(self.layout.hashes(keys))
        return self._with(below, lambda stack: states_of_keys(self.layout, stack, hashes))

    def of_slots(self, slots: range) -> CachedView:
        """The rows of some hash slots as a view in memory. Raises Unreadable."""
        view = self.layout.view
        below = self.files.states(Selection(reach=None), slots)
        return self._with(below, lambda stack: in_slots(view, live_states(self.layout, stack), slots))

    def at_cut(self, release: int, batch: BatchView, cut: Position) -> "FiledView":
        """The view below another cut, without what is above it."""
        return FiledView(self.layout, release, batch, cut, cut, (), opened=self.opened, files=self.opened(batch))

    def _with(self, states: pa.Table, above: Callable[[Stack], pa.Table]) -> CachedView:
        layout = self.layout
        below = extended(layout, (), [states])
        tail = extended(layout, (), [above((*self.tail, *self.hot))], below=below)
        touching = (*self.alone, *self.hot_alone)
        alone = extended(layout, (), [above((layer,)) for layer in touching]) if layout.told_apart else ()
        return CachedView(
            layout, self.release, self.batch, self.cut, self.end, below, tail, alone, late=self.late, tail_marked=self.tail_marked
        )


def differences_of(before: CachedView, after: CachedView, only: RowFilter) -> Differences | None:
    """How the rows of `after` that a filter takes differ from those of `before`, of views with the same meaning.

    None if the states of one of them alone are in files.
    """
    if not isinstance(before, FiledView) and not isinstance(after, FiledView):
        return differences(before, after, only)
    if not (isinstance(before, FiledView) and isinstance(after, FiledView)):
        return None
    parts = [differences(*pair, only) for pair in _pairs(before, after)]
    return Differences(*(whole(tables) for tables in zip(*((d.changed, d.gone, d.before) for d in parts), strict=True)))


def refuse_whole(view: CachedView, output: str, *, first: bool) -> None:
    """Raise ReadFailed for an output that needs all rows of a view whose states are in files."""
    if isinstance(view, FiledView) and (output == "append" or (output == "changes" and first)):
        raise ReadFailed(
            f"output {output} needs all rows of view {view.layout.view.name!r} in memory, which has no room for them; use output "
            "update, or output changes from a token"
        )


def _pairs(before: FiledView, after: FiledView) -> Iterator[tuple[CachedView, CachedView]]:
    """Both views, some keys at a time: those that the commits of one of them alone have, or all if the batch views differ."""
    layout = after.layout
    yield _empty(before), _empty(after)
    if before.batch.parts != after.batch.parts or not layout.view.keys:
        for slots in after.files.pieces():
            yield before.of_slots(slots), after.of_slots(slots)
        return
    ours, theirs = ({id(layer) for layer in view.stack} for view in (before, after))
    changed = [layer for layer in (*before.stack, *after.stack) if (id(layer) in ours) != (id(layer) in theirs)]
    if changed:
        keys = [*layout.view.keys]
        every = pa.concat_tables([layer.states.table.select(keys) for layer in changed]).group_by(keys).aggregate([])
        for start in range(0, every.num_rows, PIECE):
            some = every.slice(start, PIECE)
            below = after.below_of(some)
            yield before.of_keys(some, below), after.of_keys(some, below)


def _empty(view: FiledView) -> CachedView:
    """The view without rows: what differs of nothing has the columns of what differs."""
    return CachedView(view.layout, view.release, view.batch, view.cut, view.end, ())
