"""A view in memory at one position: the batch states below the cut, and above them what the realtime commits changed."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import unreadable
from tandem.ledger.hot.chain import HotCommits, continued
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchPart, BatchView, files_of, staying, still_live
from tandem.ledger.realtime.commits import Commit
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.memory.stack import Stack, extended, live_states
from tandem.serving.read.late_tables import NOTHING_LATE, LateTables
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.states import states_in, states_of
from tandem.views.composite.current_rows import RowsView, folding
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.kernel.kernel import Partial, current, roll
from tandem.views.view import state_schema
from tandem.views.windows import WINDOW_COLUMNS

_MOST: Final = 2**31 - 1
"""The most rows of a view, and bytes of texts in a column, that Arrow's offsets and the index reach."""


class OutgrowsMemory(Exception):
    """A view needs more bytes than the limit."""


@dataclass(frozen=True, eq=False)
class CachedView:
    """States and answers of a view that count the log up to `end`; immutable.

    * `below` counts what is below `cut`, from the parts of `batch`; the layers of `tail` are above it, from commits of `release`
      up to `committed`.
    * `hot` are the layers of hot commits above these. They are rebuilt when a commit takes the place of one: nothing that a hot
      commit said stays. They stay when hot commits are merged.
    * `alone` are the commits by themselves, for views whose units have several windows: it tells which of them are touched;
      `hot_alone` are the hot commits by themselves.
    * `late` says which rows a late version of a table may change; `tail_marked`, whether rows that realtime states are part of
      are marked for that.
    """

    layout: MemoryLayout
    release: int
    batch: BatchView
    cut: Position
    end: Position
    below: Stack = field(repr=False)
    tail: Stack = field(default=(), repr=False)
    alone: Stack = field(default=(), repr=False)
    hot: Stack = field(default=(), repr=False)
    hot_alone: Stack = field(default=(), repr=False)
    hot_commits: HotCommits = field(default=(), repr=False)
    late: LateTables = field(default=NOTHING_LATE, repr=False)
    tail_marked: bool = True

    @property
    def committed(self) -> Position:
        """The position up to which it counts commits of the table."""
        return self.hot_commits[0].start if self.hot_commits else self.end

    @cached_property
    def stack(self) -> Stack:
        """All layers, the oldest first."""
        return (*self.below, *self.tail, *self.hot)

    @cached_property
    def touching(self) -> Stack:
        """What is above the cut by itself."""
        return (*self.alone, *self.hot_alone)

    @cached_property
    def nbytes(self) -> int:
        """The bytes of memory that it uses."""
        return sum(layer.nbytes for layer in (*self.stack, *self.touching))

    def at_cut(self, release: int, batch: BatchView, cut: Position) -> "CachedView | None":
        """The view below another cut, if it holds nothing of what is below."""

    def stands_at(self, release: int, batch: BatchView, tail: RealtimeTail) -> bool:
        """Whether it counts exactly what these count."""
        same = (self.release, self.batch, self.cut, self.end) == (release, batch, tail.cut, tail.end)
        return same and self.hot_commits == tail.hot


@dataclass(frozen=True)
class ViewOrigin:
    """The tables and release that a view is read from, and how many bytes of memory it may use."""

    tables: Tables
    release: int
    room: int


@dataclass(frozen=True, eq=False)
class RowsInMemory(CachedView):
    """A view of the rows of a table in memory; `rejected` are the rows that it rejects, by reason."""

    view: RowsView = field(kw_only=True)
    table: CachedView = field(kw_only=True)
    rejected: Mapping[str, int] = field(kw_only=True)


def rows_in_memory(view: RowsView, batch: BatchView, table: CachedView) -> RowsInMemory:
    """A view of the rows of a table in memory; it is folded as a whole."""
    layout = MemoryLayout(folding(view), table.layout.seed)
    folded = current(view, Partial(live_states(table.layout, table.stack)))
    rows = extended(layout, (), [folded.states])
    tail = bool(table.tail or table.hot)
    return RowsInMemory(
        layout,
        table.release,
        batch,
        table.cut,
        table.end,
        below=() if tail else rows,
        tail=rows if tail else (),
        hot_commits=table.hot_commits,
        view=view,
        table=table,
        rejected=folded.rejected,
    )


def loaded(origin: ViewOrigin, layout: MemoryLayout, batch: BatchView, tail: RealtimeTail) -> CachedView:
    """The view, read from its tables. Raises Unreadable, OutgrowsMemory."""
    if batch.rows * _least_bytes(layout) > origin.room:  # before any is read
        raise OutgrowsMemory
    below = _added(origin, layout, (), batch, batch.parts)
    return _followed(origin, CachedView(layout, origin.release, batch, tail.cut, tail.cut, below), tail)


def followed(origin: ViewOrigin, held: CachedView, batch: BatchView, tail: RealtimeTail) -> CachedView:
    """A cached view of the same definition, advanced to another batch view and tail. Raises Unreadable, OutgrowsMemory.

    New commits and parts are added to what is cached. If a commit contains both old and new events, or a part was replaced, the
    layers above the cut, or all layers, are rebuilt. The cached view itself does not change.
    """
    if isinstance(held, RowsInMemory):
        of_table = replace(batch, fingerprint=held.table.batch.fingerprint)
        return rows_in_memory(held.view, batch, followed(origin, held.table, of_table, tail))
    if held.stands_at(origin.release, batch, tail):
        return held
    if (held.release, held.batch, held.cut) == (origin.release, batch, tail.cut):
        return _followed(origin, held, tail)
    if (at_cut := held.at_cut(origin.release, batch, tail.cut)) is not None:
        return _followed(origin, at_cut, tail)
    known = held.batch.parts
    new = tuple(part for part in batch.parts if part not in known)
    if not known or not set(known).issubset(batch.parts) or any(part.windows for part in new):
        return loaded(origin, held.layout, batch, tail)
    below = _added(origin, held.layout, held.below, batch, new)
    return _followed(origin, CachedView(held.layout, origin.release, batch, tail.cut, tail.cut, below), tail)


def _followed(origin: ViewOrigin, held: CachedView, tail: RealtimeTail) -> CachedView:
    """Add the commits from the view's end on, then the hot commits; rebuild the tail if no commit begins there."""
    if held.committed != tail.committed:
        after = next((n for n, commit in enumerate(tail.commits) if commit.start == held.committed), None)
        held = without_hot(held)
        if after is None:
            held, after = replace(held, end=held.cut, tail=(), alone=()), 0
        states = [_states(origin, held, commit) for commit in tail.commits[after:]]
        alone = extended(held.layout, held.alone, states) if held.layout.told_apart else ()
        held = replace(held, end=tail.committed, tail=extended(held.layout, held.tail, states, below=held.below), alone=alone)
    if held.hot_commits != tail.hot:
        held = _with_hot(origin, held, tail.hot)
    if held.nbytes > origin.room:
        raise OutgrowsMemory
    return held


def without_hot(held: CachedView) -> CachedView:
    """The view without its hot commits."""
    return replace(held, end=held.committed, hot=(), hot_alone=(), hot_commits=())


def without_rows(view: CachedView) -> CachedView:
    """The view where nothing is counted."""
    return replace(view, below=(), tail=(), alone=(), hot=(), hot_alone=(), hot_commits=())


def _with_hot(origin: ViewOrigin, held: CachedView, hot: HotCommits) -> CachedView:
    """Add the new hot commits; build the hot layers again if the earlier ones were dropped or folded again."""
    known = continued(held.hot_commits, hot)
    if known is None:
        held, known = without_hot(held), 0
    layout, states = held.layout, [_states(origin, held, commit) for commit in hot[known:]]
    return replace(
        held,
        end=hot[-1].end if hot else held.committed,
        hot=extended(layout, held.hot, states, below=(*held.below, *held.tail)),
        hot_alone=extended(layout, held.hot_alone, states) if layout.told_apart else (),
        hot_commits=hot,
    )


def _states(origin: ViewOrigin, held: CachedView, commit: Commit) -> pa.Table:
    view, batch = held.layout.view, held.batch
    states = states_of(origin.tables, origin.release, view, batch.states, commit).select(held.layout.states.names)
    return staying(states, held.batch.first_window)


def _added(origin: ViewOrigin, layout: MemoryLayout, stack: Stack, batch: BatchView, new: Sequence[BatchPart]) -> Stack:
    """A stack with further parts of a batch view, those of each table after its others."""
    for part in new:
        address, later = batch.address(origin.tables, layout.view.name, part), batch.later(part)
        try:
            try:
                stack = extended(layout, stack, _part(origin, layout, address, part, later))
            except FileNotFoundError:  # maintenance rewrote the files after the log was read
                stack = extended(layout, stack, _part(origin, layout, address, part, later))
        except (OSError, pa.ArrowException) as error:
            unreadable(address, error)
    return stack


def _part(
    origin: ViewOrigin, layout: MemoryLayout, address: str, part: BatchPart, later: Sequence[BatchPart]
) -> Iterator[pa.Table]:
    """The live states of a part, in pieces."""
    handle, files = files_of(origin.tables, address, part)
    left, texts, rows = origin.room, dict.fromkeys((field.name for field in layout.states if _has_offsets(field.type)), 0), 0
    first = root(layout.view)
    stored = state_schema(next((each for each in parts(first) if each.name == part.view), first))
    for file in files:
        for some in states_in(handle, file.path, stored):
            states = roll(layout.view, still_live(some, later))
            left, rows = left - states.nbytes, rows + states.num_rows
            for name in texts:
                texts[name] += states[name].nbytes
            if left < 0 or max(rows, *texts.values(), 0) > _MOST:
                raise OutgrowsMemory
            yield states


def _least_bytes(layout: MemoryLayout) -> int:
    """The bytes of a row's hash, of its numbers, and of the places of its texts: the least that it needs."""
    bounds = () if layout.timed else WINDOW_COLUMNS
    columns = (column.type for column in layout.states if column.name not in bounds)
    return 8 + sum(4 if _has_offsets(arrow) else _bits(arrow) // 8 for arrow in columns)


def _bits(arrow: pa.DataType) -> int:
    return arrow.bit_width if pa.types.is_primitive(arrow) or pa.types.is_decimal(arrow) else 0


def _has_offsets(arrow: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow) or pa.types.is_binary(arrow) or pa.types.is_list(arrow))


SECONDS: Final = 30.0
_MOST_RECENT: Final = 4_096


@dataclass
class Recent:
    """Cached views by token, each for `seconds` after it was put last; any thread may use it.

    Successive views of a stream share most of their memory, so a few thousand of them take little more than the newest.
    """

    seconds: float = SECONDS
    clock: Callable[[], float] = time.monotonic
    _views: dict[str, tuple[float, CachedView]] = field(default_factory=dict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def put(self, token: str, held: CachedView) -> None:
        """Keep a view, or keep it longer."""
        with self._lock:
            self._views.pop(token, None)
            self._views[token] = (self.clock(), held)
            self._expire()

    def get(self, token: str) -> CachedView | None:
        """The view of a token; None if it is not kept any more."""
        with self._lock:
            self._expire()
            _, held = self._views.get(token, (0, None))
            return held

    def _expire(self) -> None:
        until = self.clock() - self.seconds
        while self._views:
            oldest = next(iter(self._views))
            if self._views[oldest][0] >= until and len(self._views) <= _MOST_RECENT:
                return
            del self._views[oldest]
