"""A view that cannot be read fails in memory with the reader's sentence, and is answered again once it can be read."""

from pathlib import Path

import pytest

from tandem.ledger.delta import delta_tables
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader, UnknownView
from tandem.serving.read.outcome import Absent, Failed, ReadFailed, Value
from tandem.serving.read.selection import BadSelection
from tests.serving.read.test_failed_is_not_absent import handle_and_paths, tamper
from tests.serving.world import DEFINITIONS, NOON, World, hit, nine_hits, position


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The first of its three commits is below the cut of a publication."""
    made = nine_hits(tmp_path)
    made.recompute(position(3))
    return made


@pytest.mark.parametrize(("column", "value"), [("partial", b"not arrow"), ("fingerprint", "another")])
def test_a_damaged_commit_fails_its_view_until_it_is_replaced(world: World, column: str, value: object) -> None:
    connection = Connection(Store(world.tables, 1))
    pages, ever = connection.view("per_page"), connection.view("ever")
    before = pages.now()
    assert before.memory is not None
    handle, paths = handle_and_paths(world)
    whole = delta_tables.read_file(handle, paths[6])
    tamper(world, column, value)
    fresh = Connection(Store(world.tables, 2)).view("per_page")
    assert isinstance(fresh.ask(), Failed)
    with pytest.raises(ReadFailed, match="cannot read table"):
        fresh.get(page="/", window=NOON)
    handle, paths = handle_and_paths(world)
    delta_tables.conditional_replace(handle, [paths[6]], [whole], at=NOON)
    fresh.connection.refresh()
    assert fresh.rows() == before.scan().rows() == pages.rows()
    assert ever.get() == fresh.connection.view("ever").get()


def test_a_source_that_cannot_be_tiled_briefly_continues_from_memory(world: World) -> None:
    connection = Connection(Store(world.tables, 1))
    view = connection.view("per_page")
    before = view.now()
    handle, paths = handle_and_paths(world)
    lost = delta_tables.read_file(handle, paths[3])
    delta_tables.conditional_replace(handle, [paths[3]], [], at=NOON)
    connection.refresh()
    with pytest.raises(ReadFailed, match="cannot be answered exactly"):
        view.get(page="/", window=NOON)
    assert before.get(page="/", window=NOON) == before.scan().rows()[0]
    handle, _ = handle_and_paths(world)
    delta_tables.conditional_replace(handle, [], [lost], at=NOON)
    connection.refresh()
    assert view.rows() == before.scan().rows()


def test_a_held_snapshot_answers_for_views_that_were_never_queried(world: World) -> None:
    connection = Connection(Store(world.tables, 1))
    before = connection.snapshot()
    expected = Reader(world.tables).answer("ever")
    world.append(0, hit("/later", 7))
    world.trigger()
    world.recompute(world.end)
    connection.refresh()
    assert isinstance(expected, Value)
    assert before.view("ever").memory is None
    assert before.view("ever").scan().rows() == expected.rows()
    assert [before.view("ever").get()] == expected.rows()
    assert connection.view("ever").get() != expected.rows()[0]


def test_a_past_publication_answers_from_below_its_cut(world: World) -> None:
    view = Connection(Store(world.tables, 1)).view("per_page")
    past = view.at(publication=2)
    expected = Reader(world.tables, 2).answer("per_page", layer="batch")
    assert isinstance(expected, Value)
    assert past.scan().rows() == expected.rows() == past.lookup(["/", None]).rows()
    assert past.get(page="/", window=NOON) == expected.rows()[0]
    assert past.provenance == expected.provenance
    assert isinstance(view.at(publication=1).scan(), Absent)
    with pytest.raises(BadSelection, match=r"publication 2 .* not merged"):
        past.scan(layer="merged")
    with pytest.raises(ReadFailed, match="cannot answer from publication 7"):
        view.at(publication=7)


def test_an_invalid_question_raises_one_sentence(tmp_path: Path) -> None:
    more = DEFINITIONS.replace("import Event,", "import count_window, hopping, calendar, Event,").replace(
        "VIEWS = (per_page,",
        """
from datetime import timedelta
pairs = View(source=hits, keys={"page": "page"}, window=count_window(2), measures={"n": count()})
hops = View(source=hits, window=hopping(timedelta(minutes=6), every=timedelta(minutes=2)), measures={"n": count()})
days = View(source=hits, window=calendar("day", zone="Europe/Berlin"), measures={"n": count()})
both = View(source=hits, keys={"page": "page", "size": "bytes"}, measures={"n": count()})
VIEWS = (pairs, hops, days, both, per_page,""",
    )
    connection = Connection(Store(World(tmp_path, definitions=more).tables, 1))
    with pytest.raises(UnknownView, match="no view 'per_pag' is published; views: per_page"):
        connection.view("per_pag")
    questions: list[tuple[str, dict[str, object], str]] = [
        ("per_page", {"page": "/"}, "needs window=, the start of its window"),
        ("per_page", {"window": NOON}, "page is missing; keys: page"),
        ("per_page", {"pge": "/", "window": NOON}, "no key 'pge'; keys: page"),
        ("per_page", {"page": 5, "window": NOON}, "5 of key 'page'"),
        ("per_page", {"page": "\ud800", "window": NOON}, "of key 'page' of view"),
        ("per_page", {"page": "/", "window": NOON.replace(tzinfo=None)}, "has no time zone"),
        ("per_page", {"page": "/", "window": "noon"}, "invalid time 'noon'"),
        (
            "per_page",
            {"page": "/", "window": NOON.replace(minute=1)},
            r"no window .* starts at .*: its windows are tumbling\(hours=1\)",
        ),
        ("hops", {"window": NOON.replace(minute=1)}, "no window .* its windows are hopping"),
        ("days", {"window": NOON}, "no window .* its windows are calendar"),
        ("pairs", {"page": "/", "window": NOON}, "follow the order of the log and have no start time"),
        ("ever", {"window": NOON}, "view 'ever' is of all time"),
        ("both", {"page": "/"}, "size is missing; keys: page, size"),
    ]
    for name, question, says in questions:
        with pytest.raises(BadSelection, match=says):
            connection.view(name).get(**question)  # type: ignore[arg-type]
    with pytest.raises(BadSelection, match="'/' of view 'both'; expected a mapping with a value for each of page, size"):
        connection.view("both").lookup(["/"])
    assert connection.view("hops").get(window=NOON) is None
    assert connection.view("both").lookup([{"page": None, "size": 1}]).rows() == []
