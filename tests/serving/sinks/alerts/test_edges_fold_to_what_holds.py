"""Edges of an alert fold to the rows that are raised, and say of each end whether events or a correction brought it.

The law, at every step of any history: the edges stored so far, folded, are the episodes that are raised. They are those of a
plain computation over all rows of each step: a row is raised once it meets `when` under a label of `states`, and ends once it
does not and meets `clear`, or is restated so that it does not. An end is a correction if anything restated since the step before,
or its window was final there; else it is cleared.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.ledger.delta.errors import Conflict
from tandem.ledger.publish.publications import Publications
from tandem.serving.memory.differences import identity
from tandem.serving.memory.layer import MemoryLayout
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value
from tandem.serving.sinks.alerts import follow
from tandem.serving.sinks.alerts.book import AlertDocument, Book, open_book
from tandem.serving.sinks.alerts.episodes import Edge
from tandem.serving.sinks.alerts.follow import AlertFollower, TooManyRows
from tandem.views.alert import DAY, Alert
from tests.serving.two_releases import applied, build, edited, promote
from tests.serving.world import NOON, World, hit

Row = dict[str, Any]
Place = tuple[Any, ...]
STATES = ("open", "on_time", "final")


def alert(world: World, view: str, when: str, name: str = "busy", **terms: Any) -> Alert:
    made = Alert(world.project.views[view], when, name=name, **terms)
    made.check()
    return made


def a_world(folder: Path) -> World:
    """A world whose records are appended after their events, which then move the watermark."""
    return World(folder, appended=NOON + timedelta(days=2))


def follower(world: World, of: Alert, store: Store | None = None) -> AlertFollower:
    """The alert as a process follows it, from what is stored."""
    opened = open_book(world.tables, of.name)
    return AlertFollower(store or Store(world.tables, 1), of, opened, ("r",), lambda: world.clock)


def look(of: AlertFollower) -> tuple[Edge, ...]:
    of.store.refresh()
    return of.look(of.store.pinned())


@dataclass
class Oracle:
    """The alert computed over all rows of each step."""

    when: Callable[[Row], bool]
    clear: Callable[[Row], bool]
    states: tuple[str, ...] = STATES
    within: timedelta = DAY
    raised: dict[Place, Row] = field(default_factory=dict)
    before: dict[Place, Row] = field(default_factory=dict)

    def step(self, answer: Value | Absent, *, restated: bool) -> set[tuple[str, Place]]:
        """The edges of a step, as kinds and places."""
        names = identity(MemoryLayout(answer.view, 0))
        rows = {tuple(row[name] for name in names): row for row in answer.rows()}
        edges = set()
        for place, row in [*self.raised.items()]:
            now, was = rows.get(place), self.before.get(place, row)
            if self.past(row, answer):
                edges.add(("cleared", place))
            elif now is None or (not self.when(now) and (self.clear(now) or (restated and self.when(was)))):
                edges.add(("corrected" if restated or was["window_state"] == "final" else "cleared", place))
            else:
                self.raised[place] = now
                continue
            del self.raised[place]
        for place, row in rows.items():
            if place not in self.raised and self.when(row) and row["window_state"] in self.states and not self.past(row, answer):
                self.raised[place] = row
                edges.add(("raised", place))
        self.before = rows
        return edges

    def past(self, row: Row, answer: Value | Absent) -> bool:
        mark = answer.provenance.watermark
        if mark is None or row["window_end"] is None:
            return False
        end = datetime.fromisoformat(row["window_end"])
        return (end - datetime(1970, 1, 1, tzinfo=end.tzinfo) + self.within) // timedelta(microseconds=1) <= mark


def shape(edges: tuple[Edge, ...]) -> set[tuple[str, Place]]:
    return {(edge.kind, tuple(edge.place.values())) for edge in edges}


def fold(document: AlertDocument) -> dict[str, Edge]:
    """The raised edges that have no end; each is raised once and ends once."""
    raised: dict[str, Edge] = {}
    for each in document.edges:
        edge = each.edge
        if edge.kind == "raised":
            assert edge.id == edge.of
            assert edge.id not in raised
            assert not [other for other in raised.values() if other.place == edge.place], "raised twice"
            raised[edge.id] = edge
        else:
            assert raised.pop(edge.of).raised == edge.raised, "both values and positions"
    return raised


def check(book: Book, oracle: Oracle) -> None:
    raised = fold(book.document)
    assert raised == {each.edge.id: each.edge for each in book.document.episodes if each.edge is not None}
    assert {tuple(edge.place.values()) for edge in raised.values()} == set(oracle.raised)


def roll_back(world: World) -> None:
    history = Publications(world.tables)
    earlier = list(history.history())[-2]
    assert history.publish(lambda _: replace(earlier, kind="rollback")) is not None


def repair(world: World, number: int) -> None:
    """The log turns out to have had one event fewer, which a recompute publishes."""
    world.log[0][number] = b"{"
    world.recompute(world.writer.end)


ALERTS: dict[str, tuple[str, str, dict[str, Any], Oracle]] = {
    "mean": (
        "per_page",
        "mean > 2",
        {"clear": "mean < 1"},
        Oracle(lambda row: row["mean"] > 2, lambda row: row["mean"] < 1),
    ),
    "few": (
        "per_page",
        "n < 2",
        {"states": ("on_time", "final")},
        Oracle(lambda row: row["n"] < 2, lambda _: True, ("on_time", "final")),
    ),
    "brief": (
        "per_page",
        "n >= 2",
        {"within": timedelta(hours=2)},
        Oracle(lambda row: row["n"] >= 2, lambda _: True, within=timedelta(hours=2)),
    ),
    "odd": ("inverse", "n % 2 = 1", {}, Oracle(lambda row: row["n"] % 2 == 1, lambda _: True)),
}


@pytest.mark.each_run("2")
@pytest.mark.parametrize("seed", [1, 2])
def test_edges_fold_to_the_raised_rows_in_any_history(tmp_path: Path, seed: int) -> None:
    chance, world, hour = random.Random(seed), a_world(tmp_path), 0
    batches, at_the_look = [0], 0
    followers, oracles, store, kinds = {}, {}, Store(world.tables, 1), set[str]()
    for name, (view, when, terms, oracle) in ALERTS.items():
        followers[name] = follower(world, alert(world, view, when, name, **terms), store)
        oracles[name] = replace(oracle, raised={}, before={})
    for number in range(1, 19):
        match chance.choice(("events", "events", "events", "late", "repair", "recompute", "rollback")):
            case "events":
                hour += chance.choice((0, 0, 1))
                pages = [chance.choice(("/a", "/b", None)) for _ in range(chance.randint(1, 3))]
                world.append(0, *(hit(page, chance.randint(0, 5), minute=60 * hour + 1) for page in pages))
                world.trigger()
            case "late":
                world.append(1, hit(chance.choice(("/a", "/b")), chance.randint(0, 5), minute=60 * (hour - chance.randint(1, 9))))
                world.trigger()
            case "repair" if world.log[0]:
                repair(world, chance.randrange(len(world.log[0])))
                batches.append(number)
            case "recompute":
                world.recompute(world.writer.end)
                batches.append(number)
            case "rollback" if len(batches) > 2:
                roll_back(world)
                batches.pop()
            case _:
                continue
        if chance.random() < 0.7:
            if chance.random() < 0.3:  # another process goes on from what is stored
                store = Store(world.tables, 1)
                followers = {name: follower(world, of.alert, store) for name, of in followers.items()}
            for name, of in followers.items():
                answer = Reader(world.tables).answer(of.alert.view.name)
                assert isinstance(answer, Value | Absent)
                expected = oracles[name].step(answer, restated=batches[-1] != at_the_look)
                edges = look(of)
                assert shape(edges) == expected
                assert len(edges) == len(expected)
                check(of.book, oracles[name])
                kinds |= {edge.kind for edge in edges}
            at_the_look = batches[-1]
    assert kinds == {"raised", "cleared", "corrected"}


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = a_world(tmp_path)
    made.append(0, hit("/a", 1, minute=1), hit("/b", 2, minute=1))
    made.trigger()
    return made


def more(world: World, *values: bytes, partition: int = 0) -> None:
    world.append(partition, *values)
    world.trigger()


def told(edges: tuple[Edge, ...]) -> list[tuple[str, str, Any]]:
    return [(edge.kind, edge.because, edge.place.get("page")) for edge in edges]


def test_an_end_says_why_with_both_values_and_positions(world: World) -> None:
    of = follower(world, alert(world, "per_page", "n > 1", text="{page}: {n} hits, {mean:.1f} bytes"))
    assert look(of) == ()
    more(world, hit("/a", 4, minute=2), hit("/b", 3, minute=3))
    first, second = sorted(look(of), key=lambda edge: str(edge.place["page"]))
    assert told((first, second)) == [("raised", "events", "/a"), ("raised", "events", "/b")]
    assert first.text == "/a: 2 hits, 2.5 bytes"
    repair(world, 2)
    (edge,) = look(of)
    assert (edge.kind, edge.because, edge.of) == ("corrected", "recompute", first.id)
    assert edge.raised.row is not None
    assert edge.now.row is not None
    assert (edge.raised.row["n"], edge.now.row["n"]) == (2, 1)
    assert edge.raised.basis.publication < edge.now.basis.publication
    assert edge.raised.basis.realtime == edge.now.basis.realtime
    assert edge.text == "/a: 1 hits, 1.0 bytes"


def test_on_time_events_clear_and_late_ones_correct(world: World) -> None:
    of = follower(world, alert(world, "per_page", "mean > 3"))
    more(world, hit("/a", 9, minute=2), hit("/b", 8, minute=3))
    assert told(look(of)) == [("raised", "events", "/a"), ("raised", "events", "/b")]
    more(world, hit("/a", 0, minute=4), hit("/a", 0, minute=4))
    assert told(look(of)) == [("cleared", "events", "/a")]
    more(world, hit(None, 1, minute=200))
    assert look(of) == ()
    more(world, hit("/b", 0, minute=5), hit("/b", 0, minute=5))
    assert told(look(of)) == [("corrected", "late", "/b")]
    more(world, hit("/b", 90, minute=6))
    assert told(look(of)) == [("raised", "late", "/b")]


def test_a_window_is_raised_when_it_gets_a_label_though_its_row_stays(world: World) -> None:
    of = follower(world, alert(world, "per_page", "n = 1", states=("on_time", "final")))
    assert look(of) == ()
    more(world, hit("/c", 1, minute=61))
    assert told(look(of)) == [("raised", "events", "/a"), ("raised", "events", "/b")]


def test_history_is_raised_quietly_and_nothing_is_sent_of_it(world: World) -> None:
    more(world, hit("/c", 1, minute=300))
    of = follower(world, alert(world, "per_page", "n = 1"))
    assert {edge.place["page"]: edge.quiet for edge in look(of)} == {"/a": True, "/b": True, "/c": False}
    more(world, hit("/a", 1, minute=3), partition=1)
    assert told(look(of)) == [("corrected", "late", "/a")]
    assert [edge.place["page"] for edge in of.book.document.unsent("r")] == ["/c"]


def test_a_window_that_has_passed_ends_and_raises_no_more(world: World) -> None:
    of = follower(world, alert(world, "per_page", "n >= 1", within=timedelta(hours=1)))
    assert len(look(of)) == 2
    more(world, hit("/c", 1, minute=121))
    assert told(look(of)) == [("cleared", "past", "/a"), ("cleared", "past", "/b"), ("raised", "events", "/c")]
    more(world, hit("/a", 1, minute=3), partition=1)
    assert look(of) == ()


def test_a_row_is_held_until_it_has_met_the_condition_for_long(world: World) -> None:
    of = follower(world, alert(world, "per_page", "mean > 3", hold=timedelta(minutes=5)))
    more(world, hit("/a", 9, minute=2))
    assert look(of) == ()
    world.clock += timedelta(minutes=4)
    assert look(of) == ()
    more(world, hit("/a", 0, minute=2), hit("/a", 0, minute=2), hit("/b", 9, minute=2))
    assert look(of) == ()
    world.clock += timedelta(minutes=4)
    assert look(of) == ()
    again = follower(world, of.alert)
    world.clock += timedelta(minutes=1)
    assert told(look(again)) == [("raised", "events", "/b")]


def test_a_promote_corrects_and_so_does_another_condition(world: World) -> None:
    world.recompute(world.end)
    of = follower(world, alert(world, "ever", "n > 1"))
    assert [edge.kind for edge in look(of)] == ["raised"]
    ready = applied(world, edited("another filter"))
    build(ready, ready.end)
    assert look(of) == ()
    promote(ready)
    assert [(edge.kind, edge.because) for edge in look(of)] == [("corrected", "definition")]
    roll_back(world)
    assert [(edge.kind, edge.because) for edge in look(of)] == [("raised", "definition")]
    assert look(follower(world, replace(of.alert, text="another text"))) == ()
    narrower = follower(world, replace(of.alert, when="n > 7"))
    assert [(edge.kind, edge.because) for edge in look(narrower)] == [("corrected", "definition")]


def test_a_condition_that_comes_back_raises_edges_of_its_own(world: World) -> None:
    conditions, edges = ("n > 0", "n > 7", "n > 0", "n > 7", "n > 0"), list[Edge]()
    for when in conditions:
        world.clock += timedelta(seconds=1)
        edges += look(of := follower(world, alert(world, "per_page", when)))
    assert [edge.kind for edge in edges] == 2 * ["raised", "raised", "corrected", "corrected"] + ["raised", "raised"]
    assert len({edge.id for edge in edges}) == 10, "a receiver drops an id that it has"
    assert len(fold(of.book.document)) == 2


def test_of_two_processes_the_second_is_refused_and_goes_on(world: World) -> None:
    first, second = (follower(world, alert(world, "per_page", "n > 1")) for _ in range(2))
    assert look(first) == ()
    with pytest.raises(Conflict):
        look(second)
    assert look(second) == ()
    more(world, hit("/a", 4, minute=2))
    assert len(look(first)) == 1
    with pytest.raises(Conflict):
        look(second)
    assert look(second) == ()
    assert fold(second.book.document).keys() == fold(first.book.document).keys() != set()


def test_more_rows_than_anybody_reads_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follow, "MOST", 1)
    with pytest.raises(TooManyRows, match="alert 'busy': 2 rows meet 'n > 0', more than 1; narrow the condition"):
        look(follower(world, alert(world, "per_page", "n > 0")))
