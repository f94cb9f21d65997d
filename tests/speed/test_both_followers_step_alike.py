"""However micro-batches and hot folds divide a log, both followers make the same of it: the same commits, the same state."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.counts import plus
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.realtime.commits import Commit
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.hot.comparison import differing
from tandem.speed.hot.hot_tail import HotTail
from tandem.speed.micro_batch import log_tail
from tandem.speed.micro_batch.fold import MicroBatchResult, fold_shares
from tandem.speed.micro_batch.follower_state import FollowerState
from tandem.speed.micro_batch.log_tail import UncommittedLog
from tandem.speed.micro_batch.task import Task, share_of
from tandem.views.arrow.arrays import from_ipc
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.watermark import newest
from tandem.views.view import View
from tests.samples import share
from tests.speed.hot.test_hot_equals_cold import MINUTES, PARTITIONS, PROJECT, Played

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
SALES = PROJECT.sources["sales"]
KINDS = ("minutes", "shops")

numbers = st.lists(st.tuples(st.integers(0, 7), st.integers(0, PARTITIONS - 1)), min_size=1, max_size=16)
parts = st.lists(st.lists(st.integers(0, 3), min_size=PARTITIONS, max_size=PARTITIONS), max_size=4)
"""How many quarters of what is left of each partition a range has; the rest is the last range."""


def fold_here(
    records: Sequence[pa.Table],
    task: Task,
    views: Mapping[str, View],
    ranges: Ranges,
    dedup_window: DedupWindow,
    *,
    workers: object,
    schemas: None,
) -> MicroBatchResult:
    """A micro-batch as `fold_records` folds it, with a task for each partition, without Spark."""
    some = [table for table in records if table.num_rows]
    return fold_shares(lambda task: [share_of(task, table) for table in some], task, views, ranges, dedup_window)


def ends(log: Played, quarters: Sequence[Sequence[int]]) -> list[Position]:
    """Where the ranges of a split end; none of them is empty."""
    reached, found = [0] * PARTITIONS, [LOG_START]
    for some in [*quarters, [4] * PARTITIONS]:
        reached = [low + (len(rows) - low) * n // 4 for low, rows, n in zip(reached, log.log, some, strict=True)]
        end = Position.of({("T", place): offset for place, offset in enumerate(reached)})
        if end != found[-1] and any(reached):
            found.append(end)
    return found


def by_micro_batches(log: Played, split: Sequence[Position]) -> tuple[list[Commit], FollowerState]:
    made: list[Commit] = []
    writer: Any = SimpleNamespace(append=made.append)
    nothing: Any = SimpleNamespace(maxima={}, watermarks={})
    state = FollowerState(DedupWindow(MINUTES), epoch=1, by="test", idle=SALES.idle)
    tail = UncommittedLog(log.task, SALES, log.views, writer, nothing, lambda: NOON, state)
    with patch.object(log_tail, "fold_records", fold_here):
        for start, end in pairwise(split):
            records: Any = log.records(start, end)
            tail.extend(records, end, still_there=lambda: None)
    return made, tail.state


def by_hot_folds(log: Played, split: Sequence[Position]) -> tuple[list[Commit], FollowerState]:
    tail = HotTail(log.task, SALES, log.views, FollowerState(DedupWindow(MINUTES), epoch=7, by="hot"))
    made = [tail.extend(pa.concat_tables(log.records(start, end)), end, at=NOON) for start, end in pairwise(split)]
    return made, tail.at_end


def content(commit: Commit) -> dict[str, Any]:
    return {name: value for name, value in vars(commit).items() if name not in ("epoch", "by", "partials")}


def window(state: FollowerState) -> tuple[list[Any], ...]:
    """The identities that are known, and what decides how long."""
    found = state.dedup_window
    keys = sorted(row for run in found.runs for row in np.column_stack([run.words, run.rest]).tolist())
    return keys, found.times.tolist(), [found.base, found.caught_up, found.newest, found.evicted]


def beside_identities(state: FollowerState) -> dict[str, Any]:
    return {name: value for name, value in vars(state).items() if name not in ("epoch", "by", "dedup_window")}


@share(40, quick=5)
@given(numbers, parts, parts, st.booleans())
def test_any_split_into_micro_batches_and_any_split_into_hot_folds_count_alike(
    sold: list[tuple[int, int]],
    one: list[list[int]],
    other: list[list[int]],
    around: bool,  # noqa: FBT001
) -> None:
    """Divided alike, commit equals commit and state equals state. Divided otherwise, the whole is the same.

    If copies are `around`, in several partitions, the split decides in which one the copy lies that counts.
    """
    log = Played("sales", around=around, kinds=KINDS)
    log.append(sold)
    split, otherwise = ends(log, one), ends(log, other)
    commits, state = by_micro_batches(log, split)
    same, alike = by_hot_folds(log, split)
    assert [content(each) for each in commits] == [content(each) for each in same]
    for made, again in zip(commits, same, strict=True):
        for name, view in log.views.items():
            assert not differing(view, [from_ipc(made.partials[name])], [from_ipc(again.partials[name])])
    assert beside_identities(state) == beside_identities(alike)
    assert window(state) == window(alike)
    divided, reached = by_hot_folds(log, otherwise)
    assert window(reached)[0] == window(state)[0]
    whole, parts_ = (plus(*(each.counts for each in made)) for made in (commits, divided))
    assert replace(whole, late=0) == replace(parts_, late=0)
    if not around:
        assert (whole.late, state.maxima) == (parts_.late, reached.maxima)
        assert reached.maxima == newest(each.maxima for each in divided) == newest(each.maxima for each in commits)
    for name, view in log.views.items():
        states = ([from_ipc(each.partials[name]) for each in made] for made in (commits, divided))
        assert not differing(view, *states)
