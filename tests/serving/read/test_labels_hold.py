"""Labels in answers: a final row stays final, and any event that changes it nevertheless is counted.

Append times in the test's log are seconds by offset, so a partition that is a few records behind is idle.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value
from tandem.views.source.watermark import Newest, later, newest, watermark
from tests.samples import just
from tests.serving.world import NOON, TOPIC_ID, World, hit, position

DEFINITIONS = """
from datetime import datetime, timedelta

from tandem import Event, Source, View, count, count_window, hopping, session, total, tumbling


class Hit(Event):
    moment: datetime
    page: str
    bytes: int


hits = Source(topic="hits", event=Hit, event_time="moment", lateness=timedelta(minutes=2), idle=timedelta(seconds=2))
n = {"n": count(), "bytes": total("bytes")}
fours = View(source=hits, keys={"page": "page"}, window=tumbling(minutes=4), measures=n)
large = View(source=hits, where="bytes > 1", window=tumbling(minutes=4), measures=n)
hops = View(source=hits, keys={"page": "page"}, window=hopping(timedelta(minutes=7), every=timedelta(minutes=3)), measures=n)
sessions = View(source=hits, keys={"page": "page"}, window=session(minutes=3), measures=n)
pairs = View(source=hits, keys={"page": "page"}, window=count_window(2), measures=n)
ever = View(source=hits, measures=n)

SOURCES = (hits,)
VIEWS = (fours, large, hops, sessions, pairs, ever)
"""
LATENESS, IDLE = timedelta(minutes=2), timedelta(seconds=2)
MINUTE = timedelta(minutes=1)
US = timedelta(microseconds=1)

hits = st.builds(hit, st.sampled_from(["/a", "/b"]), st.integers(1, 3), minute=st.integers(0, 30))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 1), st.lists(hits, min_size=1, max_size=4)),
        st.tuples(st.just("append"), st.integers(0, 1), st.lists(hits, min_size=1, max_size=4)),
        st.tuples(st.just("trigger")),
        st.tuples(st.just("trigger")),
        st.tuples(st.just("recompute"), st.integers(0, 2)),
        st.tuples(st.just("compact")),
    ),
    min_size=4,
    max_size=16,
)
VIEWS = ("fours", "large", "hops", "sessions", "pairs", "ever")


@just(40, quick=3)
@given(steps)
def test_a_final_row_stays_final_and_changes_only_by_counted_events(steps: list[tuple[Any, ...]]) -> None:
    """Of any reader, at any moment, with partitions that are idle and come back, recomputes and compaction."""
    with TemporaryDirectory() as folder:
        world, reader = World(Path(folder), definitions=DEFINITIONS), None
        boundaries, cut, counted = [LOG_START], LOG_START, Counter[str]()
        reader = Reader(world.tables)
        before: dict[str, tuple[dict[Any, Any], int]] = {view: ({}, 0) for view in VIEWS}
        for step in steps:
            match step:
                case ("append", int(partition), list(some)):
                    world.append(partition, *some)
                    continue
                case ("trigger",) if world.end != world.writer.end:
                    counted.update(after_final(world, boundaries))
                    world.trigger()
                    boundaries.append(world.writer.end)
                case ("recompute", int(back)):
                    held = {span.end for span in world.writer._spans.values()} | {cut, world.writer.end}
                    ahead = [boundary for boundary in boundaries if cut.at_or_below(boundary) and boundary in held]
                    cut = ahead[max(0, len(ahead) - 1 - back)]
                    world.recompute(cut)
                case ("compact",):
                    world.compact()
            reader.refresh()
            for view in VIEWS:
                finals, broken = before[view]
                now, after = look(reader, view)
                assert after == counted[view]
                for place, row in finals.items():
                    same = now.get(place) == row
                    assert same or after > broken
                    assert place not in now or now[place]["window_state"] == "final"
                before[view] = ({place: row for place, row in now.items() if row["window_state"] == "final"}, after)


def look(reader: Reader, view: str) -> tuple[dict[Any, Any], int]:
    """The rows by key and window, and how many events came after final."""
    answer = reader.answer(view)
    assert isinstance(answer, Value | Absent)
    places = ("page", "window_start", "window_end", "partition", "window_number")
    rows = {tuple(row.get(place) for place in places): row for row in answer.rows()}
    return rows, answer.provenance.after_final


def after_final(world: World, boundaries: list[Position]) -> Iterator[str]:
    """The views, in plain Python, to which each event after the last boundary comes after final."""
    reached = None
    for end in boundaries[1:]:
        reached = later(reached, computed(world, end))
    if reached is None:
        return
    until = timedelta(microseconds=reached) - LATENESS
    for partition, values in world.log.items():
        for value in values[boundaries[-1].get((TOPIC_ID, partition), 0) :]:
            event = json.loads(value)
            moment = datetime.fromisoformat(event["moment"]) - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
            four = (moment // (4 * MINUTE) + 1) * 4 * MINUTE
            if four <= until:
                yield "fours"
            if four <= until and event["bytes"] > 1:
                yield "large"
            if (moment // MINUTE + 1) * MINUTE <= until:
                yield "hops"
            if moment + 3 * MINUTE <= until:
                yield "sessions"


def computed(world: World, end: Position) -> int | None:
    """The watermark of the log below a position, as its definition says."""
    maxima = {}
    for partition, values in world.log.items():
        below = values[: end.get((TOPIC_ID, partition), 0)]
        if below:
            moments = [datetime.fromisoformat(json.loads(value)["moment"]) for value in below]
            newest_ = max(moments) - datetime.fromisoformat("1970-01-01T00:00:00+00:00")
            maxima[partition] = (newest_ // US, (len(below) - 1) * 1_000_000)
    if not maxima:
        return None
    now = max(appended for _, appended in maxima.values())
    return min(moment for moment, appended in maxima.values() if now - appended <= IDLE // US)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, definitions=DEFINITIONS)


def states(world: World, view: str, **question: Any) -> list[str]:
    answer = Reader(world.tables).answer(view, **question)
    assert isinstance(answer, Value | Absent)
    return [row["window_state"] for row in answer.rows()]


def test_each_layer_labels_by_the_watermark_at_its_position(world: World) -> None:
    world.append(0, hit("/a", 1, minute=1), hit("/a", 1, minute=5))
    world.trigger()
    world.recompute(position(2))
    world.append(0, hit("/a", 1, minute=9), hit("/a", 1, minute=2))
    world.trigger()
    assert states(world, "fours", layer="batch") == ["on_time", "open"]
    assert states(world, "fours") == ["final", "on_time", "open"]
    # The late one was in time: the watermark was still at 5 minutes when its micro-batch began.
    assert states(world, "fours", layer="speed") == ["final", "open"]
    for layer, minute in (("batch", 5), ("speed", 9), ("merged", 9)):
        answer = Reader(world.tables).answer("fours", layer=layer)  # type: ignore[arg-type]
        assert isinstance(answer, Value)
        assert answer.provenance.to_json(now=NOON)["watermark"] == f"2026-11-01T12:{minute:02}:00Z"
        assert answer.provenance.after_final == 0


def test_a_range_as_one_window_and_the_order_of_the_log_have_labels_too(world: World) -> None:
    world.append(0, *(hit("/a", 1, minute=minute) for minute in (1, 5, 9)))
    world.trigger()
    ranges = [(NOON, NOON + minutes * MINUTE) for minutes in (4, 8, 12)]
    assert [states(world, "fours", between=between, one=True) for between in ranges] == [["final"], ["on_time"], ["open"]]
    assert states(world, "pairs") == ["final", "open"]
    assert states(world, "ever") == ["open"]


def test_events_after_final_are_counted_in_their_layer(world: World) -> None:
    world.append(0, hit("/a", 1, minute=9))
    world.trigger()
    world.append(0, hit("/a", 1, minute=0), hit("/a", 2, minute=1), hit("/a", 2, minute=7))
    world.trigger()
    world.recompute(position(4))
    world.append(0, hit("/a", 1, minute=2))
    world.trigger()
    found = {}
    for layer in ("batch", "speed", "merged"):
        answer = Reader(world.tables).answer("fours", layer=layer)
        assert isinstance(answer, Value)
        found[layer] = answer.provenance.after_final
    assert found == {"batch": 2, "speed": 1, "merged": 3}
    assert look(Reader(world.tables), "large")[1] == 1


def test_a_publication_has_the_initial_labels_of_a_new_speed_layer(world: World) -> None:
    world.append(0, hit("/a", 1, minute=9))
    world.append(1, hit("/a", 1, minute=4), hit("/a", 1, minute=3))
    world.trigger()
    live = world.recompute(world.end)
    assert live.watermarks == {"hits": _us(4)}
    assert live.maxima["hits"] == {(TOPIC_ID, 0): Newest(_us(9), _us(-10)), (TOPIC_ID, 1): Newest(_us(4), _us(-10) + 1_000_000)}
    assert watermark(newest([live.maxima["hits"]]), IDLE) == _us(4)


def _us(minute: int) -> int:
    return (NOON + minute * MINUTE - datetime.fromisoformat("1970-01-01T00:00:00+00:00")) // US
