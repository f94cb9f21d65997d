"""Rollups of rollups: no level reads an event, none can miss a change, and all stand where the view at the root stands.

In systems that store each level and refresh it from the one below, a late event reaches a level only if the refresh of each level
before it covers the event's window, and asking the top level may scan every event that no level has yet.
"""

import json
import shutil
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.recompute.plan import BadRequest, RecomputeRequest, steps
from tandem.cli.__main__ import main
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.publications import Publication, Publications
from tandem.serving.connection import Connection
from tandem.serving.memory.store import MEMORY, Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.from_time import from_time
from tandem.views.project import project
from tests.serving.memory.test_memory_equals_the_reader import extend, mend
from tests.serving.world import DEFINITIONS, NOON, World, hit, position

LEVELS = """
minutes = View(
    source=hits, keys={"page": "page"}, window=tumbling(minutes=10),
    measures={"n": count(), "bytes": total("bytes"), "mean": mean("bytes")},
)
hours = rollup(minutes, window=tumbling(hours=1))
days = rollup(hours, keys=(), window=calendar("day", zone="UTC"))
months = rollup(days, window=calendar("month", zone="UTC"), measures=("n", "bytes"))

SOURCES = (hits,)
VIEWS = (minutes, hours, days, months)
"""
THREE = (
    DEFINITIONS[: DEFINITIONS.index("per_page = ")].replace("total, tumbling", "calendar, rollup, total, tumbling")
    + LEVELS.strip()
)
NAMES = ("minutes", "hours", "days", "months")


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Twelve hits of an hour, of which eight are below the cut."""
    made = World(tmp_path, definitions=THREE)
    made.append(0, *(hit("/a", n, minute=5 * n) for n in range(12)))
    made.trigger(position(8))
    made.trigger()
    made.recompute(position(8))
    return made


def totals(world: World, memory: int = MEMORY) -> dict[str, tuple[int, int]]:
    """The events and bytes that each level counts, in memory and from files."""
    connection, reader, found = Connection(Store(world.tables, 3, memory)), Reader(world.tables), {}
    for name in NAMES:
        rows: list[dict[str, Any]] = connection.view(name).rows()
        answer = given(reader.answer(name))
        assert [row["n"] for row in rows] == [row["n"] for row in answer.rows()]
        found[name] = sum(row["n"] for row in rows), sum(row["bytes"] for row in rows)
    return found


def test_no_level_reads_an_event(world: World) -> None:
    """Each commit and each publication has states of the one view of events; answers need neither events nor archive."""
    world.file_in_archive()
    commits = [world.trigger() for _ in (world.append(1, hit("/b", 7)),)]
    assert [len(commit.partials) for commit in commits] == [1]
    live = Publications(world.tables).latest()
    assert live is not None
    assert [*live.views] == ["minutes"]
    events = Path(world.tables.events("hits", "")).parent.parent
    assert events.is_dir()
    shutil.rmtree(events)
    counted = totals(world)
    assert set(counted.values()) == {(13, sum(range(12)) + 7)}
    assert totals(world, 0) == counted


def test_a_late_event_changes_every_level_in_the_same_answer(world: World) -> None:
    """It is late for all windows: before every other event, below the cut in time, and after a recompute of the parent."""
    before = totals(world)
    world.append(1, hit("/a", 100, minute=-55), hit("/a", 1000, minute=-60 * 24 * 40))
    world.trigger()
    late = totals(world)
    assert {name: (n + 2, size + 1100) for name, (n, size) in before.items()} == late
    extend(world, position(8), world.writer.end, 1)
    assert totals(world) == late
    world.recompute(world.writer.end)
    assert totals(world) == late


def test_a_recompute_of_some_windows_changes_every_level_at_once(world: World) -> None:
    """As a repaired duplicate does: eight hits of the hour below the cut become seven."""
    before = totals(world)
    world.log[0][3] = b"{"
    mend(world, position(8), (NOON, NOON + timedelta(hours=1)), ("minutes",))
    assert totals(world) == {name: (n - 1, size - 3) for name, (n, size) in before.items()}


def test_every_level_stands_where_the_root_stands(world: World) -> None:
    world.append(1, hit("/b", 7))
    world.trigger()
    views = Connection(Store(world.tables, 3)).snapshot()
    stands = [views.view(name).scan().provenance for name in NAMES]
    ours = {(each.realtime, each.cut, each.batch_version, each.watermark, each.newest) for each in stands}
    assert len(ours) == 1
    assert stands[0].realtime == world.writer.end != LOG_START
    assert len({each.fingerprint for each in stands}) == len(NAMES)
    assert [each.rollup_of for each in stands] == [(), ("minutes",), ("hours", "minutes"), ("days", "hours", "minutes")]
    with pytest.raises(BadRequest, match="'days' is a rollup and has no states; recompute 'minutes'"):
        steps(world.project, Publications(world.tables).history()[-1], RecomputeRequest(views=("days",)))


def test_plan_says_what_a_change_of_the_parent_means(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    definitions = world.folder / "definitions.py"
    definitions.write_text(THREE.replace('"page": "page"}', '"page": "upper(page)"}').replace("hours=1", "hours=2"))
    assert main(["plan", "--project", str(world.folder), "--json"]) == 3
    views = json.loads(capsys.readouterr().out)["views"]
    assert {name: (view["status"], view["kind"]) for name, view in views.items()} == dict.fromkeys(NAMES, ("changed", "breaking"))
    assert [change["words"] for change in views["hours"]["changes"]][1:] == [
        "window: tumbling(hours=1) -> tumbling(hours=2)",
        "parent view changed",
    ]
    assert [view["work"] is None for view in views.values()] == [False, True, True, True]
    definitions.write_text(THREE.replace("VIEWS = (minutes, hours, days, months)", "VIEWS = (minutes, hours)"))
    assert main(["plan", "--project", str(world.folder)]) == 3
    assert "- view months: removed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("hours=1))", "minutes=15))", "view 'hours', window: tumbling(minutes=15) has slices of 0:15:00, which is not a"),
        ('"day", zone="UTC"', '"day", zone="Asia/Kathmandu"', "in 2000 the clocks of Asia/Kathmandu are +05:45 from UTC"),
        ('"month", zone="UTC"', '"month", zone="Europe/Berlin"', 'is not made of windows of calendar("day", zone="UTC")'),
        ("rollup(hours, keys=()", "rollup(hours, keys=('city',)", "the parent has no key 'city'; keys: page"),
        ('measures=("n", "bytes"))', 'measures=("n", "byte"))', "the parent has no measure 'byte'; measures: bytes, mean, n"),
        ("(minutes, hours, days", "(minutes, days", "view 'days': the view that it rolls up is not in VIEWS; views: "),
        ("tumbling(minutes=10)", "session(minutes=10)", "a rollup's parent has windows by the clock"),
        ('"UTC"), measures', '"UTC"), keys="page", measures', "keys='page' is not a tuple of names"),
        ("rollup(minutes, window", "rollup('minutes', window", "'minutes' is not a View"),
        ("rollup(minutes, window", "rollup(hits, window", "rollup: a Source is not a View"),
        ("rollup(hours, keys=()", "rollup(hours, keys=(['page'],)", "the parent has no key ['page']; keys: page"),
        ("rollup(hours, keys=()", "rollup(hours, keys=('page', 'page')", "has 'page' more than once; name each key once"),
        ('measures=("n", "bytes"))', 'measures=("n", "n"))', "has 'n' more than once; name each measure once"),
        ("rollup(hours, keys=()", "rollup(hours, keys=('n',)", "the parent has no key 'n', which is a measure of it; keys: page"),
        ("rollup(hours, keys=()", "rollup(hours, keys={'a': 'bytes + 1'}", "key 'a': 'bytes + 1' names a field 'bytes' that a "),
        ("rollup(hours, keys=()", "rollup(hours, keys={'a': 'page), (1'}", "key 'a': 'page), (1' is more than one expression"),
        ("rollup(hours, keys=()", "rollup(hours, keys={'a': 1}", "rollup, key 'a': 1 is not a text"),
        ("rollup(hours, keys=()", "rollup(hours, keys={'a': 'length(page) / 2'}", "is of type DOUBLE; an expression over keys"),
        ("rollup(hours, keys=()", "rollup(hours, keys={'a': 'count(page)'}", "key 'a': 'count(page)' "),
        ('keys={"page": "page"}', 'keys=["page"]', "of its parent, keys is a list, not a dict of names; write keys={'page': "),
        ("window=tumbling(minutes=10),", "window=tumbling(minutes=10), docs=None,", "of its parent, docs is a NoneType, not"),
        ("SOURCES", "hours = replace(hours, keys={'page': 'upper(page)'})\nSOURCES", "view 'hours', keys: 'page' is not what"),
        ("SOURCES", "hours = replace(hours, measures={'n': total('bytes')})\nSOURCES", "measures: 'n' is not what the"),
        ("SOURCES", "hours = replace(hours, where='bytes > 1')\nSOURCES", "where: bytes > 1 is not what the parent has, None"),
    ],
)  # fmt: skip
def test_what_cannot_be_rolled_up_is_refused_in_a_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in THREE
    (tmp_path / "tandem.toml").touch()
    imports = THREE.replace("import Event,", "import session, Event,")
    (tmp_path / "definitions.py").write_text("from dataclasses import replace\n" + imports.replace(old, new))
    with pytest.raises(DefinitionError) as error:
        project.load(tmp_path)
    assert sentence in str(error.value)
    assert str(error.value).startswith("definitions.py:")


def test_a_window_leaves_with_the_first_of_its_slices(tmp_path: Path) -> None:
    """An hour of which some minutes have left is not an hour: no row of it stays."""
    kept = THREE.replace('"mean": mean("bytes")},\n)', '"mean": mean("bytes")}, keep=timedelta(minutes=60),\n)')
    kept = kept.replace("import datetime\n", "import datetime, timedelta\n")
    made = World(tmp_path, definitions=kept)
    made.append(0, *(hit("/a", 1, minute=10 * n) for n in range(12)))
    made.trigger()
    made.recompute(made.writer.end)
    newest = NOON + timedelta(minutes=110)

    def leave(parent: Publication | None) -> Publication:
        assert parent is not None
        views = {name: view.with_gone(newest - timedelta(minutes=60), view) for name, view in parent.views.items()}
        return replace(parent, views=views)

    assert Publications(made.tables).publish(leave)
    now = Connection(Store(made.tables, 3)).snapshot()
    minutes, hours = now.view("minutes").scan(), now.view("hours").scan()
    assert minutes.rows()[0]["window_start"] == "2026-11-01T12:50:00Z"
    assert [(row["window_start"], row["n"]) for row in hours.rows()] == [("2026-11-01T13:00:00Z", 6)]
    assert given(Reader(made.tables).answer("hours")).rows() == hours.rows()
    assert hours.provenance.kept_from == NOON + timedelta(hours=1)


@pytest.mark.parametrize("memory", [MEMORY, 0], ids=["memory", "files"])
def test_a_row_has_the_labels_of_the_parents_rows_in_it(tmp_path: Path, memory: int) -> None:
    """A row may still change if any of the parent's may, and none is marked that is made of events below the cut alone."""
    made = World(tmp_path, definitions=THREE.replace('event_time="moment"', 'event_time="moment", identity=("bytes",)'))
    made.append(0, hit("/a", 99, minute=-60 * 24 * 60), *(hit(page, n, minute=70 * n) for n in range(8) for page in ("/a", "/b")))
    made.trigger(position(17))
    made.recompute(position(17))
    made.append(1, hit("/b", 77, minute=75), hit("/b", 78, minute=60 * 24 * 40))
    made.trigger()
    views = Connection(Store(made.tables, 3, memory)).snapshot()
    marked = {name: [row for row in views.view(name).scan().rows() if "_exactness" in row] for name in NAMES}
    assert [(row["page"], row["window_start"]) for row in marked["hours"]] == [
        ("/b", "2026-11-01T13:00:00Z"),
        ("/b", "2026-12-11T12:00:00Z"),
    ]
    for name, parent in zip(NAMES[1:], NAMES, strict=False):
        rows = views.view(name).scan().rows()
        within = [row for row in rows if any(_inside(each, row) for each in marked[parent])]
        assert marked[name] == within
        assert len(rows) > len(within) > 0


def _inside(row: dict[str, Any], of: dict[str, Any]) -> bool:
    """Whether a parent's row is one of those that a rollup's row unites."""
    return of["window_start"] <= row["window_start"] < of["window_end"] and row.get("page") == of.get("page", row.get("page"))


def test_a_range_of_windows_reads_the_slices_of_its_last_window(world: World) -> None:
    world.append(1, hit("/a", 5, minute=60 * 24), hit("/a", 6, minute=60 * 36), hit("/a", 7, minute=60 * 48))
    world.trigger()
    world.recompute(world.writer.end)
    first, reader = NOON - timedelta(hours=12), Reader(world.tables)
    for days in range(4):
        between = (first + timedelta(days=1), first + timedelta(days=days, minutes=1))
        wanted = [row for row in given(reader.answer("days")).rows() if between[0] <= _time(row) < between[1]]
        if between[0] <= between[1]:
            assert given(reader.answer("days", between=between)).rows() == wanted


def _time(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["window_start"])


def test_a_view_with_rollups_has_one_definition(world: World) -> None:
    """From a date on, a window of a rollup would unite states of two definitions."""
    live = project.load(world.folder)
    (world.folder / "definitions.py").write_text(THREE.replace('total("bytes")', 'total("bytes + 1")'))
    with pytest.raises(DefinitionError, match="unites states of view 'minutes', which would have several definitions"):
        from_time(project.load(world.folder), live, {"hits": NOON})
