"""Windows of every kind with events on both sides of the cut; ranges of slices as one window."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value
from tandem.serving.read.selection import BadSelection, parse_span
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


def test_the_last_three_are_those_above_the_cut(world: World) -> None:
    assert [row["bytes"] for row in rows(world, "latest", keys={"page": "/a"})] == [8 + 4 + 64]


def test_any_range_of_slices_is_one_window(world: World) -> None:
    chosen = rows(world, "minutes", between=(minute(1), minute(17)), one=True)
    assert [(row["page"], row["window_start"][11:16], row["window_end"][11:16], row["bytes"]) for row in chosen] == [
        ("/a", "12:01", "12:17", 2 + 4 + 8 + 16),
        ("/b", "12:01", "12:17", 256),
    ]
    assert [row["bytes"] for row in rows(world, "hops", between=(minute(10), minute(20)), one=True)] == [8 + 16]


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
