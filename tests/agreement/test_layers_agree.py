"""Batch below the cut merged with realtime after it is the answer over the whole log, for any view, cut and micro-batching."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from tests.agreement.oracle import FILTERS, KEYS, MEASURES, oracle, plain
from tests.agreement.windows import WINDOWS
from tests.samples import SAMPLES, placed, rows, share, table
from views.kernel import Partial, merge, partial, present, settle
from views.ranges import Ranges
from views.view import View, group_columns
from views.wire import from_ipc, to_ipc

PARTITIONS = (("topic", 0), ("topic", 1), ("anew", 0))

Log = dict[tuple[str, int], list[dict[str, Any]]]
logs = st.fixed_dictionaries({partition: st.lists(rows, max_size=15) for partition in PARTITIONS})


@pytest.mark.parametrize("kind", WINDOWS)
@share(50, quick=20)
@given(logs, st.data())
def test_batch_and_realtime_are_the_whole(kind: str, log: Log, data: st.DataObject) -> None:
    where = data.draw(st.none() | st.sampled_from(FILTERS), label="where")
    keys = {
        f"k{n}": said for n, said in enumerate(data.draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True), label="keys"))
    }
    cut_by = data.draw(WINDOWS[kind], label="window")
    names = data.draw(st.lists(st.sampled_from(sorted(MEASURES)), min_size=1, max_size=6, unique=True), label="measures")
    measures = {name: MEASURES[name] for name in names}
    view = View(
        SAMPLES,
        keys={name: said.sql for name, said in keys.items()},
        window=cut_by.window,
        measures={name: asked.measure for name, asked in measures.items()},
        where=where and where.sql,
    )
    note(repr(view))
    log = {partition: placed(events, partition=partition) for partition, events in log.items()}

    cut = {partition: data.draw(st.integers(0, len(events)), label=f"cut {partition}") for partition, events in log.items()}
    nothing, end = dict.fromkeys(log, 0), {partition: len(events) for partition, events in log.items()}
    batch = merge(view, data.draw(st.permutations(list(folds(view, log, splits(data, nothing, cut))))))
    if data.draw(st.booleans(), label="settled"):
        batch = replace(batch, states=settle(view, batch.states))
    realtime = [wired(fold) for fold in folds(view, log, splits(data, cut, end))]
    merged = merge(view, [batch, *data.draw(st.permutations(realtime))])
    if data.draw(st.booleans(), label="settled again"):
        merged = replace(merged, states=settle(view, merged.states))

    answers, rejected = oracle(
        log,
        where=where and where.value,
        keys={name: said.value for name, said in keys.items()},
        window=cut_by.split,
        measures=measures,
    )
    assert merged.ranges.length == sum(end.values())
    assert Counter(merged.rejected) == rejected
    assert answered(view, merged) == answers


def splits(data: st.DataObject, start: dict[Any, int], end: dict[Any, int]) -> list[dict[Any, tuple[int, int]]]:
    """Whole range vectors from start to end, as triggers of any number and size would plan them."""
    steps = data.draw(st.integers(1, 4), label="triggers")
    vectors: list[dict[Any, tuple[int, int]]] = [{} for _ in range(steps)]
    for partition, first in start.items():
        inner = sorted(data.draw(st.lists(st.integers(first, end[partition]), min_size=steps - 1, max_size=steps - 1)))
        for vector, bounds in zip(vectors, zip([first, *inner], [*inner, end[partition]], strict=True), strict=True):
            vector[partition] = bounds
    return vectors


def folds(view: View, log: Log, vectors: Sequence[dict[Any, tuple[int, int]]]) -> Iterator[Partial]:
    for vector in vectors:
        events = [event for partition, (start, to) in vector.items() for event in log[partition][start:to]]
        yield partial(view, table(events), Ranges.of(vector))


def wired(one: Partial) -> Partial:
    return Partial(from_ipc(to_ipc(one.states)), Ranges.from_json(one.ranges.to_json()), one.rejected)


def answered(view: View, merged: Partial) -> dict[tuple[Any, ...], dict[str, Any]]:
    answers = present(view, merged)
    assert isinstance(answers, pa.Table)
    found = answers.to_pylist()
    grouped = {
        tuple(plain(row[name]) for name in group_columns(view)): {name: plain(row[name]) for name in view.measures}
        for row in found
    }
    assert len(grouped) == len(found), "a key and window stands in two rows"
    return grouped
