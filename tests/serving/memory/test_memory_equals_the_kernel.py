"""A stack of layers equals one merge and present of the same states, for any view, order and hash."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.batch_parts import BatchView
from tandem.serving.memory import layer as layouts
from tandem.serving.memory import stack as stacks
from tandem.serving.memory.answers import Answers
from tandem.serving.memory.cached_view import CachedView
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.memory.stack import Stack, extended
from tandem.serving.read.selection import ALWAYS, select
from tandem.views.arrow.key_hash import Hashes, KeyHash
from tandem.views.instant import MICROSECOND
from tandem.views.kernel.kernel import merge_states, present, settle
from tandem.views.kernel.partial import Partial
from tandem.views.kernel.rows import to_rows
from tandem.views.view import View, approximations, bind
from tests.agreement.drawn import counting, drawn, logs
from tests.agreement.test_layers_agree import folds, splits, vector
from tests.agreement.windows import WINDOWS
from tests.samples import SAMPLES, share


class FewBits(KeyHash):
    """One that nearly every two keys share."""

    def of_columns(self, columns: Sequence[pa.Array]) -> Hashes:
        return super().of_columns(columns) & np.uint64(2**63)

    def of_key(self, values: Sequence[Any]) -> int:
        return super().of_key(values) & 2**63


@pytest.fixture(params=[KeyHash, FewBits])
def any_hash(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layouts, "KeyHash", request.param)


@pytest.mark.each_run(
    "KeyHash-hopping",
    "KeyHash-session",
    "KeyHash-delta",
    "FewBits-all time",
    "FewBits-tumbling",
    "FewBits-session",
    "FewBits-last N events",
)
@pytest.mark.usefixtures("any_hash")
@pytest.mark.parametrize("kind", WINDOWS)
@share(20, quick=4)
@given(st.data())
def test_rows_by_key_by_range_and_all_equal_the_kernels(kind: str, data: st.DataObject) -> None:
    log = data.draw(logs(), label="log")
    view = drawn(data, kind).view
    end = {partition: len(events) for partition, events in log.items()}
    nothing = dict.fromkeys(log, 0)
    cut = {partition: data.draw(st.integers(0, most), label=f"cut {partition}") for partition, most in end.items()}
    below = [one.states for one in folds(view, counting(SAMPLES, log, []), [vector(nothing, cut)], splits(data, nothing, cut))]
    after = [one.states for one in folds(view, log, [vector(cut, end)], splits(data, cut, end))]
    if data.draw(st.booleans(), label="settled"):
        below = [settle(view, merge_states(view, below))]
    merged = Partial(merge_states(view, [*below, *after]))
    bounds = label_bounds(view, present(view, merged))
    watermark = data.draw(
        st.none() | st.integers(-(10**15), 4 * 10**15) | (st.sampled_from(bounds) if bounds else st.none()), label="watermark"
    )

    layout = MemoryLayout(view, seed=data.draw(st.integers(0, 2**64 - 1), label="seed"))
    assert all(layout.answer.field(name).type == layout.states.field(name).type for name in layout.shared)
    base: Stack = ()
    for states in below:
        base = extended(layout, base, [states])
    tail: Stack = ()
    for states in after:
        tail = extended(layout, tail, [states], below=base)
    for stack in (base, tail):
        sizes = [layer.states.table.num_rows for layer in stack]
        assert all(older > 2 * newer for older, newer in pairwise(sizes)), "so layers are few"
    answers = Answers(CachedView(layout, 1, BatchView("f"), LOG_START, LOG_START, base, tail), watermark)

    whole = present(view, merged, watermark)
    expected = to_rows(view, whole)
    exact = [name for name in layout.answer.names if name not in approximations(view)]
    table, total, _ = answers.select(select(view, {}, ALWAYS))
    assert (total, plain(to_rows(view, table), exact)) == (len(expected), plain(expected, exact))
    assert table.schema.equals(layout.answer, check_metadata=True)

    keys = list(zip(*(whole[name].to_pylist() for name in view.keys), strict=True)) if view.keys else [()]
    some = data.draw(st.lists(st.sampled_from(keys), max_size=4) if keys else st.just([]), label="keys")
    strangers = [tuple(None for _ in view.keys)] if data.draw(st.booleans(), label="stranger") else []
    asked = {*some, *strangers}
    chosen = [row for row, key in zip(whole.to_pylist(), keys * (1 if view.keys else len(whole)), strict=True) if key in asked]
    mine = to_rows(view, pa.Table.from_pylist(chosen, layout.answer))
    assert plain(to_rows(view, answers.of_keys([*some, *strangers]).table) if asked else [], exact) == plain(mine, exact)

    for key in some:
        of_key = select(view, dict(zip(view.keys, key, strict=True)), ALWAYS)
        found = answers.select(of_key).table
        assert plain(to_rows(view, found), exact) == plain(to_rows(view, answers.of_keys([key]).table), exact)
    if not bind(view).placement.in_order:
        starts = whole["window_start"].cast(pa.int64()).to_pylist()
        for key, start, row in zip(keys * (1 if view.keys else len(whole)), starts, by_row(view, whole), strict=True):
            assert plain([answers.row(key, start) or {}], exact) == plain([row], exact)
            assert answers.row(key, start) == answers.row(key, start)
        there = set(zip(keys * (1 if view.keys else len(whole)), starts, strict=True))
        for key, start in places(view, answers) - there:
            assert answers.row(key, start) is None, "a session that became part of another"
        # A label changes at few watermarks, which a draw seldom is: the last row has the right one around each of them.
        for at in label_bounds(view, whole.slice(len(whole) - 1)) if len(whole) else ():
            label = present(view, merged, at)["window_state"][-1].as_py()
            row = Answers(answers.held, at).row(keys[-1], starts[-1])
            assert row is not None
            assert row["window_state"] == label


def label_bounds(view: View, rows: pa.Table) -> list[int]:
    """The watermarks at which labels of these rows change, and those just before and after."""
    ends = rows["window_end"].cast(pa.int64()).drop_null().to_pylist()
    lateness, grace = (span // MICROSECOND for span in (view.source.lateness, bind(view).placement.timing.grace))
    return sorted({end + behind + step for end in ends for behind in (0, lateness, lateness + grace) for step in (-1, 0, 1)})


def places(view: View, answers: Answers) -> set[tuple[tuple[Any, ...], int | None]]:
    """The keys and window starts of all rows of all layers."""
    found = set()
    for layer in answers.held.stack:
        table = layer.answers.table
        own = zip(*(table[name].to_pylist() for name in view.keys), strict=True) if view.keys else [()] * len(table)
        found |= set(zip(own, table["window_start"].cast(pa.int64()).to_pylist(), strict=True))
    return found


def plain(rows: Sequence[dict[str, Any]], names: Sequence[str]) -> list[dict[str, Any]]:
    return [{name: row.get(name) for name in names} for row in rows]


def by_row(view: View, table: pa.Table) -> list[dict[str, Any]]:
    return [to_rows(view, table.slice(n, 1))[0] for n in range(len(table))]


@pytest.mark.parametrize("kind", ["tumbling", "session"])
@share(20, quick=4)
@given(st.data())
def test_states_in_pieces_equal_states_in_one_table(kind: str, data: st.DataObject) -> None:
    log = data.draw(logs(), label="log")
    view = drawn(data, kind).view
    whole = vector(dict.fromkeys(log, 0), {partition: len(events) for partition, events in log.items()})
    (states,) = [one.states for one in folds(view, log, [whole], [whole])]
    layout = MemoryLayout(view, 5)
    piece = stacks.PIECE
    stacks.PIECE = 2
    try:
        (small,) = extended(layout, (), [states]) or (None,)
    finally:
        stacks.PIECE = piece
    (large,) = extended(layout, (), [states]) or (None,)
    if small is None or large is None:
        assert small is large
        return
    exact = [name for name in layout.kept.names if name not in approximations(view)]
    rows = [layer.answers.table.select(exact).to_pylist() for layer in (small, large)]
    assert sorted(map(repr, rows[0])) == sorted(map(repr, rows[1]))
    assert small.answers.index.hashes.tolist() == large.answers.index.hashes.tolist()
