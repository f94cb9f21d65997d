"""Batch below the cut merged with realtime after it is the answer over the whole log, for any view, cut and micro-batching."""

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given, note
from hypothesis import strategies as st

from tests.agreement.oracle import FILTERS, KEYS, MEASURES, oracle, plain
from tests.samples import SAMPLES, placed, rows, share, table
from views.kernel import Partial, merge, partial, present
from views.ranges import Ranges
from views.view import View
from views.windows import Tumbling, all_time
from views.wire import from_ipc, to_ipc

SIZES = (
    None,
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=7),
    timedelta(days=1),
    timedelta(days=7),
    timedelta(days=365),
)
PARTITIONS = (("topic", 0), ("topic", 1), ("older", 0))

Log = dict[tuple[str, int], list[dict[str, Any]]]
logs = st.fixed_dictionaries({partition: st.lists(rows, max_size=15) for partition in PARTITIONS})


@share(60)
@given(logs, st.data())
def test_batch_and_realtime_are_the_whole(log: Log, data: st.DataObject) -> None:
    where = data.draw(st.none() | st.sampled_from(FILTERS), label="where")
    keys = {
        f"k{n}": said for n, said in enumerate(data.draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True), label="keys"))
    }
    size = data.draw(st.sampled_from(SIZES), label="window")
    names = data.draw(st.lists(st.sampled_from(sorted(MEASURES)), min_size=1, max_size=6, unique=True), label="measures")
    measures = {name: MEASURES[name] for name in names}
    view = View(
        SAMPLES,
        keys={name: said.sql for name, said in keys.items()},
        window=all_time() if size is None else Tumbling(size),
        measures={name: asked.measure for name, asked in measures.items()},
        where=where and where.sql,
    )
    note(repr(view))
    log = {partition: placed(events, partition=partition) for partition, events in log.items()}

    cut = {partition: data.draw(st.integers(0, len(events)), label=f"cut {partition}") for partition, events in log.items()}
    nothing, end = dict.fromkeys(log, 0), {partition: len(events) for partition, events in log.items()}
    batch = merge(view, data.draw(st.permutations(list(folds(view, log, splits(data, nothing, cut))))))
    realtime = [wired(fold) for fold in folds(view, log, splits(data, cut, end))]
    merged = merge(view, [batch, *data.draw(st.permutations(realtime))])

    answers, rejected = oracle(
        (event for events in log.values() for event in events),
        where=where and where.value,
        keys={name: said.value for name, said in keys.items()},
        size=size,
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
        (*(plain(row[name]) for name in view.keys), row["window_start"]): {name: plain(row[name]) for name in view.measures}
        for row in found
    }
    assert len(grouped) == len(found), "a key and window stands in two rows"
    if isinstance(view.window, Tumbling):
        assert all(row["window_end"] - row["window_start"] == view.window.size for row in found)
    return grouped
