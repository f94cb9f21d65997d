"""Values of several events: for any micro-batches and cut, the answer equals plain Python's over all events.

The order of the log is by index within an offset: duplicates, first and last, samples and log-order windows follow it.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import md5
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given
from hypothesis import strategies as st

from tandem import Event, Source, View, count, count_window, first, last, last_k, max_by, sample, sliding_count_window, total
from tandem.batch.fold.dropped_positions import DroppedPositions
from tandem.speed.dedup.across_tasks import Duplicates, find_duplicates
from tandem.speed.dedup.dedup_window import DedupWindow
from tandem.speed.dedup.within_task import Identified, identified, identities, is_at, values
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.kernel import Partial, decode, deduplicate, merge, partial, prepare, present, settle
from tandem.views.source.log_order import event_rejects, further, places
from tandem.views.source.offset_ranges import EMPTY, Ranges
from tandem.views.source.source import events_schema, position_columns
from tandem.views.windows import Window, delta, punctuation
from tests.samples import share
from tests.views.logged import records

START = datetime(2026, 11, 1, tzinfo=UTC)
MOST = 3
STEPS = 3


class Reading(Event):
    id: int
    at: datetime
    n: int


READINGS = Source(
    topic="readings", event=Reading, event_time="at", identity=("id",), max_events_per_record=MOST, dedup_window=timedelta(days=1)
)
PLAIN = {
    "n": count(),
    "sum": total("n"),
    "first": first("n"),
    "last": last("n"),
    "last_k": last_k("n", 2),
    "top": max_by("n", "n % 2", 2),
    "drawn": sample("n", 2),
    "at": total("_offset * 10 + _index"),
}
WINDOWS: dict[str, Window] = {
    "every": count_window(3),
    "lasts": sliding_count_window(4),
    "delta": delta("n", by=4),
    "marks": punctuation("n % 3 = 0"),
}
VIEWS = {
    "plain": View(READINGS, measures=PLAIN),
    **{
        name: View(READINGS, window=window, measures={"sum": total("n"), "n": count(), "last": last("n")})
        for name, window in WINDOWS.items()
    },
}

Log = list[list[list[dict[str, Any]]]]
"""By partition, the values, each of several events."""

Vector = Sequence[tuple[int, int]]
"""A range of offsets for each partition."""

Found = list[tuple[int, int, int, dict[str, Any]]]
"""Partition, offset and index of events, and the events."""

# An event without a number is rejected alone.
readings = st.fixed_dictionaries({"id": st.integers(0, 12), "at": st.integers(0, 1), "n": st.integers(-9, 9) | st.none()})
# A list of four is more than the source takes: none of its events count.
logs = st.lists(st.lists(st.lists(readings, min_size=1, max_size=MOST + 1), max_size=8), min_size=1, max_size=2)


def value(events: list[dict[str, Any]]) -> bytes:
    return json.dumps([event | {"at": (START + timedelta(seconds=event["at"])).isoformat()} for event in events]).encode()


def counted(log: Log, vectors: Sequence[Vector]) -> Found:
    """The events that count, in the order of the log: the first of each id and time, where a later vector came later."""
    seen: set[tuple[int, int]] = set()
    found = []
    for vector in vectors:
        for number, (low, high) in enumerate(vector):
            for offset in range(low, high):
                events = log[number][offset]
                for index, event in enumerate(events if len(events) <= MOST else []):
                    if event["n"] is not None and (event["id"], event["at"]) not in seen:
                        seen.add((event["id"], event["at"]))
                        found.append((number, offset, index, event))
    return sorted(found, key=lambda one: one[:3])


def plain(found: Found) -> dict[str, Any]:
    by_time = sorted(found, key=lambda one: (one[3]["at"], *one[:3]))
    top = sorted(found, key=lambda one: (int(np.fmod(one[3]["n"], 2)), one[3]["at"], *one[:3]), reverse=True)
    dice = sorted((md5(f"T/{p}/{offset * 2**31 + index}".encode()).hexdigest()[:15], e["n"]) for p, offset, index, e in found)
    return {
        "n": len(found),
        "sum": sum(event["n"] for *_, event in found),
        "first": by_time[0][3]["n"],
        "last": by_time[-1][3]["n"],
        "last_k": [event["n"] for *_, event in by_time[::-1][:2]],
        "top": [{"by": int(np.fmod(event["n"], 2)), "value": event["n"]} for *_, event in top[:2]],
        "drawn": [n for _, n in dice[:2]],
        "at": sum(offset * 10 + index for _, offset, index, _ in found),
    }


def windowed(name: str, found: Found) -> list[tuple[int, int, int]]:
    """Sum, number and last value of each partition's windows, in order."""
    groups: dict[int, list[list[dict[str, Any]]]] = defaultdict(lambda: [[]])
    for number, _, _, event in found:
        windows = groups[number]
        current = windows[-1]
        full = {
            "every": len(current) == 3,
            "lasts": False,
            "delta": bool(current) and abs(event["n"] - current[0]["n"]) >= 4,
            "marks": bool(current) and current[-1]["n"] % 3 == 0,
        }[name]
        if full:
            windows.append([])
        windows[-1].append(event)
    every = [window[-4:] if name == "lasts" else window for number in sorted(groups) for window in groups[number]]
    newest = [max(enumerate(window), key=lambda one: (one[1]["at"], one[0]))[1]["n"] for window in every]
    return [(sum(e["n"] for e in window), len(window), last) for window, last in zip(every, newest, strict=True)]


@share(100, quick=12)
@given(logs, st.data())
def test_any_micro_batches_and_any_cut_give_the_answer_of_the_whole_log(log: Log, data: st.DataObject) -> None:
    vectors = [*zip(*(_bounds(data, len(held)) for held in log), strict=True)]
    oracle = counted(log, vectors)
    values_of = [[value(events) for events in held] for held in log]
    pieces: list[pa.Table] = []
    dedup_window = DedupWindow(10**12)
    for vector in vectors:
        # Batch drops by position what it finds, below the cut, which is the first vector; a task of speed sees one partition.
        shares = [_shuffled(data, _decoded(values_of, number, *bounds)) for number, bounds in enumerate(vector)]
        if not pieces:
            whole = pa.concat_tables(shares)
            kept = _without_copies(whole)
            dedup_window = dedup_window.extended(values(identities(READINGS, identified(READINGS, whole))), at=0, caught_up=0)
        else:
            found = [identified(READINGS, each, known=dedup_window.known) for each in shares]
            judged = find_duplicates([identities(READINGS, each) for each in found], dedup_window)
            kept = pa.concat_tables([_kept(each, judged) for each in found])
            dedup_window = dedup_window.extended(judged.added, at=0, caught_up=0)
        pieces.append(kept)
    assert sum(piece.num_rows for piece in pieces) == len(oracle)
    for name, view in VIEWS.items():
        parts = [_folded(view, piece, vector) for piece, vector in zip(pieces, vectors, strict=True)]
        parts[0] = replace(parts[0], states=settle(view, parts[0].states))
        rows = present(view, merge(view, data.draw(st.permutations(parts)))).to_pylist()
        if name == "plain":
            assert [{measure: row[measure] for measure in PLAIN} for row in rows] == ([plain(oracle)] if oracle else [])
        else:
            ordered = sorted(rows, key=lambda row: (row["partition"], row.get("window_number", 0)))
            assert [(row["sum"], row["n"], row["last"]) for row in ordered] == windowed(name, oracle)


def _kept(found: Identified, judged: Duplicates) -> pa.Table:
    """As a task of speed does it."""
    new = ~found.suspect | is_at(found.events, judged.admitted)
    return found.events.filter(pa.array(found.single & new & ~is_at(found.events, judged.drops)))


def _bounds(data: st.DataObject, end: int) -> list[tuple[int, int]]:
    """One partition's intervals, the first of them below the cut."""
    inner = sorted(data.draw(st.lists(st.integers(0, end), min_size=STEPS, max_size=STEPS)))
    return [*pairwise([0, *inner, end])]


def _decoded(values_of: list[list[bytes]], number: int, low: int, high: int) -> pa.Table:
    """The events of a range, every record of which has exactly one outcome."""
    found = decode(READINGS, records(values_of[number][low:high], topic_id="T", partition=number, first=low))
    alone = event_rejects(found.rejects)
    whole = found.rejects.num_rows - alone.events
    assert found.events.num_rows + alone.events - further(found.events) - alone.further + whole == high - low
    lists = values_of[number][low:high]
    assert alone.events == sum(
        event["n"] is None for value in lists if len(json.loads(value)) <= MOST for event in json.loads(value)
    )
    assert set(found.rejects["reason"].to_pylist()) <= {"length", "wrong_type"}
    return found.events


def _shuffled(data: st.DataObject, events: pa.Table) -> pa.Table:
    return events.take(pa.array(data.draw(st.permutations(range(len(events)))), pa.int64()))


def _without_copies(events: pa.Table) -> pa.Table:
    """As batch does it: the positions of copies by partition, then the events at other positions."""
    names = list(position_columns(READINGS))
    kept = deduplicate(READINGS, events).events.select(names)
    dropped = events.select(names).join(kept, keys=names, join_type="left anti", use_threads=False)
    by_partition = {number: dropped.filter(pc.equal(dropped["_partition"], number)) for number in (0, 1)}
    return DroppedPositions({("T", number): np.sort(places(some)) for number, some in by_partition.items() if len(some)}).keep(
        events
    )


def _folded(view: View, events: pa.Table, vector: Vector) -> Partial:
    ranges = Ranges.of({("T", number): bounds for number, bounds in enumerate(vector)})
    one = partial(view, prepare(READINGS, events).events, ranges)
    return replace(one, states=from_ipc(to_ipc(one.states)))


def test_the_index_distinguishes_events_of_one_record_at_every_offset() -> None:
    """Also where a number of 64 bits would not do, and in the order of the log."""
    offsets = [0, 0, 1, 255, 256, 256, 2**63 - 2, 2**63 - 1, 2**63 - 1]
    indexes = [0, 256, 0, 0, 0, 255, 999_999, 0, 1]
    events = pa.table({"_offset": pa.array(offsets, pa.int64()), "_index": pa.array(indexes, pa.int32())})
    found = places(events)
    assert np.sort(found[::-1]).tolist() == found.tolist()
    assert len(set(found.tolist())) == len(offsets)
    last_of_all = View(READINGS, measures={"n": last("n")})
    rows = events.append_column("n", pa.array(range(len(offsets)), pa.int64()))
    for name, filler in (("_topic_id", "T"), ("_partition", 0), ("_append_time", START), ("id", 1), ("at", START)):
        rows = rows.append_column(name, pa.array([filler] * len(offsets), events_schema(READINGS).field(name).type))
    assert present(
        last_of_all, partial(last_of_all, prepare(READINGS, rows.select(events_schema(READINGS).names)).events, EMPTY)
    )["n"].to_pylist() == [8]
