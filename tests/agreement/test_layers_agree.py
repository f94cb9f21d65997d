"""Batch below the cut merged with realtime after it equals the whole log, for any view, cut and micro-batches."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.kernel import Partial, deduplicate, merge, partial, present, settle
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import Source
from tandem.views.view import View, group_columns
from tests.agreement.drawn import EVERY, FEW, Log, Vector, counting, drawn, logs
from tests.agreement.oracle import plain
from tests.agreement.windows import WINDOWS
from tests.samples import COPIED, GENERATIONS, RETRIED, SAMPLES, just, table


@pytest.mark.parametrize("kind", WINDOWS)
@just(1000, quick=3)
@given(st.data())
def test_any_cut_and_micro_batches_count_the_whole_log_without_duplicates(kind: str, data: st.DataObject) -> None:
    agree(kind, COPIED, EVERY, data)


@pytest.mark.parametrize("kind", WINDOWS)
@just(100, quick=2)
@given(st.data())
def test_copies_with_times_of_their_own_count_once_in_the_window_of_the_first(kind: str, data: st.DataObject) -> None:
    agree(kind, RETRIED, EVERY, data)


@pytest.mark.parametrize("kind", WINDOWS)
@just(50, quick=2)
@given(st.data())
def test_without_identity_every_event_counts(kind: str, data: st.DataObject) -> None:
    agree(kind, SAMPLES, EVERY | FEW, data)


def agree(kind: str, source: Source, measures: st.SearchStrategy[list[str]], data: st.DataObject) -> None:
    log = data.draw(logs(source), label="log")
    said = drawn(data, kind, source, measures)
    view = said.view
    end = {partition: len(events) for partition, events in log.items()}
    cut = {partition: data.draw(st.integers(0, most), label=f"cut {partition}") for partition, most in end.items()}
    nothing = dict.fromkeys(log, 0)

    whole = vector(nothing, end)
    answers, rejected = said.oracle(counting(source, log, [whole]))
    batch = merge(view, folds(view, log, [whole], [whole]))
    assert Counter(batch.rejected) == rejected
    assert answered(view, batch) == answers

    below, triggers = vector(nothing, cut), splits(data, cut, end)
    if source.identity:
        answers, rejected = said.oracle(counting(source, log, [below, *triggers]))
    batch = merge(view, data.draw(st.permutations(folds(view, log, [below], splits(data, nothing, cut)))))
    if data.draw(st.booleans(), label="settled"):
        batch = replace(batch, states=settle(view, batch.states))
    realtime = [wired(fold) for fold in folds(view, log, [below, *triggers], triggers)]
    merged = merge(view, [batch, *data.draw(st.permutations(realtime))])
    if data.draw(st.booleans(), label="settled again"):
        merged = replace(merged, states=settle(view, merged.states))
    assert merged.ranges.length == sum(end.values())
    assert Counter(merged.rejected) == rejected
    assert answered(view, merged) == answers


def vector(start: dict[Any, int], end: dict[Any, int]) -> Vector:
    return {partition: (first, end[partition]) for partition, first in start.items()}


def splits(data: st.DataObject, start: dict[Any, int], end: dict[Any, int], *, least: int = 1, most: int = 2) -> list[Vector]:
    """Whole range vectors from start to end, as triggers of any number and size would plan them."""
    steps = data.draw(st.integers(least, most), label="triggers")
    vectors: list[dict[tuple[str, int], tuple[int, int]]] = [{} for _ in range(steps)]
    for partition, first in start.items():
        inner = sorted(data.draw(st.lists(st.integers(first, end[partition]), min_size=steps - 1, max_size=steps - 1)))
        for one, bounds in zip(vectors, zip([first, *inner], [*inner, end[partition]], strict=True), strict=True):
            one[partition] = bounds
    return [*vectors]


def folds(view: View, log: Log, read: Sequence[Vector], vectors: Sequence[Vector]) -> list[Partial]:
    """A partial of each vector, of the events that are no copies of any that were read before or at once."""
    kept = [*events_of(view.source, log, read)]
    found = []
    for one in vectors:
        within = [events.filter(pa.array(inside(events, one), pa.bool_())) for events in kept]
        found.append(partial(view, pa.concat_tables(within), Ranges.of(one)))
    return found


def events_of(source: Source, log: Log, read: Sequence[Vector]) -> Iterator[pa.Table]:
    """What counts of each vector, one after the other."""
    known = table([], source=source)
    for one in read:
        events = table([event for partition, (low, high) in one.items() for event in log[partition][low:high]], source=source)
        found = deduplicate(source, events, known, generations=GENERATIONS).events
        known = pa.concat_tables([known, found])
        yield found


def inside(events: pa.Table, one: Vector) -> list[bool]:
    rows = events.select(["_topic_id", "_partition", "_offset"]).to_pylist()
    bounds = [(one[row["_topic_id"], row["_partition"]], row["_offset"]) for row in rows]
    return [low <= offset < high for (low, high), offset in bounds]


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
