"""Windows of every kind with events on both sides of the cut; ranges of slices as one window."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.serving.read.outcome import Absent, Value
from tandem.serving.read.reader import Reader
from tandem.serving.read.selection import BadSelection, last, parse_span
from tests.serving.world import NOON, World, hit, position

DEFINITIONS = """
from datetime import datetime, timedelta

from tandem import Event, Source, View, all_time, count, hopping, sliding_count_window, count_window, session, total, tumbling


class Hit(Event):
    moment: datetime
    page: str
    bytes: int


hits = Source(topic="hits", event=Hit, event_time="moment", identity=("page", "bytes"))
n = {"n": count(), "bytes": total("bytes")}
hops = View(source=hits, window=hopping(timedelta(minutes=30), every=timedelta(minutes=10)), measures=n)
minutes = View(source=hits, keys={"page": "page"}, window=tumbling(minutes=1), measures=n)
sessions = View(source=hits, keys={"page": "page"}, window=session(minutes=5), measures=n)
pairs = View(source=hits, keys={"page": "page"}, window=count_window(2), measures=n)
latest = View(source=hits, keys={"page": "page"}, window=sliding_count_window(3), measures=n)
ever = View(source=hits, measures=n)

SOURCES = (hits,)
VIEWS = (hops, minutes, sessions, pairs, latest, ever)
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Hits of /a each four minutes and one of /b; the first three are below the cut. Bytes are powers of two."""
    made = World(tmp_path_factory.mktemp("world"), definitions=DEFINITIONS)
    made.append(0, *(hit("/a", 2**n, minute=4 * n) for n in (0, 1, 4)))
    made.trigger()
    made.recompute(position(3))
    made.append(0, *(hit("/a", 2**n, minute=4 * n) for n in (3, 2, 6)), hit("/b", 256, minute=1))
    made.trigger()
    return made


def rows(world: World, view: str, **question: Any) -> list[dict[str, Any]]:
    answer = Reader(world.tables).answer(view, **question)
    assert isinstance(answer, Value | Absent)
    return answer.rows()


def minute(number: int) -> datetime:
    return NOON + timedelta(minutes=number)


def test_an_event_above_the_cut_makes_one_session_of_two_below(world: World) -> None:
    found = [(row["page"], row["window_start"][11:16], row["window_end"][11:16], row["bytes"]) for row in rows(world, "sessions")]
    assert found == [("/a", "12:00", "12:21", 31), ("/b", "12:01", "12:06", 256), ("/a", "12:24", "12:29", 64)]
    assert len(rows(world, "sessions", layer="batch")) == 2


def test_a_range_keeps_sessions_whole(world: World) -> None:
    chosen = rows(world, "sessions", between=(minute(0), minute(1)))
    assert [(row["window_end"][11:16], row["bytes"]) for row in chosen] == [("12:21", 31)]
    assert rows(world, "sessions", between=(minute(10), minute(20))) == []


def test_count_windows_continue_across_the_cut(world: World) -> None:
    found = [(row["page"], row["window_number"], row["bytes"]) for row in rows(world, "pairs", keys={"page": "/a"})]
    assert sorted(found) == [("/a", 0, 3), ("/a", 1, 16 + 8), ("/a", 2, 4 + 64)]


def test_the_last_three_are_those_above_the_cut(world: World) -> None:
    assert [row["bytes"] for row in rows(world, "latest", keys={"page": "/a"})] == [8 + 4 + 64]


def test_a_hopping_window_is_made_of_slices_of_both_layers(world: World) -> None:
    found = {row["window_start"][11:16]: row["bytes"] for row in rows(world, "hops")}
    assert found == {"11:40": 263, "11:50": 287, "12:00": 351, "12:10": 88, "12:20": 64}


def test_a_range_of_hopping_windows_reads_all_their_slices(world: World) -> None:
    chosen = rows(world, "hops", between=(minute(0), minute(10)))
    assert [(row["window_start"][11:16], row["bytes"]) for row in chosen] == [("12:00", 351)]


def test_any_range_of_slices_is_one_window(world: World) -> None:
    chosen = rows(world, "minutes", between=(minute(1), minute(17)), one=True)
    assert [(row["page"], row["window_start"][11:16], row["window_end"][11:16], row["bytes"]) for row in chosen] == [
        ("/a", "12:01", "12:17", 2 + 4 + 8 + 16),
        ("/b", "12:01", "12:17", 256),
    ]
    assert [row["bytes"] for row in rows(world, "hops", between=(minute(10), minute(20)), one=True)] == [8 + 16]


def test_the_last_span_ends_with_the_slice_that_is_now(world: World) -> None:
    view = Reader(world.tables).view("minutes")
    now = datetime(2026, 11, 1, 12, 16, 30, tzinfo=UTC)
    assert last(view, parse_span("37m"), now=now) == (minute(17 - 37), minute(17))
    assert last(view, parse_span("1h"), now=minute(16)) == (minute(-43), minute(17))
    with pytest.raises(BadSelection, match="beyond the years 1 to 9999"):
        last(view, timedelta(days=999_999), now=now)


@pytest.mark.parametrize(
    ("view", "between", "sentence"),
    [
        ("sessions", (minute(0), minute(1)), "view 'sessions' has no time slices"),
        ("ever", (minute(0), minute(1)), "is of all time"),
        ("minutes", (minute(0), None), "needs both ends of the range"),
        ("minutes", (minute(0), minute(1) + timedelta(seconds=1)), "slices of 0:01:00, and none begins at"),
    ],
)
def test_a_range_that_is_not_made_of_slices_is_refused(world: World, view: str, between: Any, sentence: str) -> None:
    with pytest.raises(BadSelection, match=sentence):
        Reader(world.tables).answer(view, between=between, one=True)


@pytest.mark.parametrize("text", ["", "37", "m", "-1m", "1.5h", "1w", "9999999999d"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(BadSelection, match=r"invalid duration .*; write 90s, 37m, 2h or 7d"):
        parse_span(text)


def test_an_answer_states_the_dedup_window(world: World, tmp_path: Path) -> None:
    dedup_windows: dict[str, list[float]] = {}
    for layer in ("batch", "speed", "merged"):
        answer = Reader(world.tables).answer("ever", layer=layer)
        assert isinstance(answer, Value)
        dedup_windows[layer] = [reason.figures["dedup_window_s"] for reason in answer.provenance.exactness.marked]
    assert dedup_windows == {"batch": [], "speed": [600.0], "merged": [600.0]}
    whole = World(tmp_path, definitions=DEFINITIONS)
    whole.append(0, hit("/a", 1))
    whole.trigger()
    whole.recompute(position(1))
    answer = Reader(whole.tables).answer("ever")
    assert isinstance(answer, Value)
    assert answer.provenance.exact
