"""A table at a time, asked in every way, and what `check`, `plan`, `explain` and `recompute` say of tables."""

import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from tandem.batch.recompute.plan import BadRequest, RecomputeRequest, steps
from tandem.cli.__main__ import main
from tandem.ledger.publish.publications import Publications
from tandem.serving.client.server_client import Client
from tandem.serving.connection import Connection
from tandem.serving.memory.store import MEMORY, Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.selection import BadSelection
from tandem.serving.spark import dataframe
from tandem.views.errors import DefinitionError
from tandem.views.project import project
from tests.serving.http.served import Served
from tests.serving.world import DEFINITIONS, NOON, World, hit, position

TABLED = (
    DEFINITIONS[: DEFINITIONS.index("per_page = ")].replace("Source, View", "Sink, Source, Table, View, delta_table, rollup")
    + """
latest = Table(hits, key={"page": "page"}, gone="bytes < 0")
per_page = View(source=hits, keys={"page": "page"}, measures={"n": count()})

SOURCES = (hits,)
VIEWS = (per_page, latest)
"""
)


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Versions at minutes 0, 10, 20 and 30 below the cut, then a late one, two of one time and one that is gone."""
    made = World(tmp_path, definitions=TABLED)
    made.append(0, *(hit("/a", n, minute=10 * n) for n in range(4)), hit("/b", 7), hit(None, 8))
    made.trigger()
    made.recompute(position(6))
    made.append(1, hit("/a", 15, minute=15), hit("/a", 30, minute=30), hit("/b", -1, minute=25), hit("/c", 5, minute=40))
    made.trigger()
    return made


def at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


SIZES: dict[int | None, dict[str | None, int]] = {
    None: {"/a": 30, "/c": 5, None: 8},
    -1: {},
    0: {"/a": 0, "/b": 7, None: 8},
    14: {"/a": 1, "/b": 7, None: 8},
    15: {"/a": 15, "/b": 7, None: 8},
    25: {"/a": 2, None: 8},
    30: {"/a": 30, None: 8},
    99: {"/a": 30, "/c": 5, None: 8},
}


def sizes(rows: list[dict[str, Any]]) -> dict[str | None, int]:
    return {row["page"]: row["bytes"] for row in rows}


def test_every_way_of_asking_has_the_versions_of_a_time(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    views = [Connection(Store(world.tables, 3, memory)).view("latest") for memory in (MEMORY, 0)]
    reader = Reader(world.tables)
    batch = {None: 3, -1: None, 0: 0, 14: 1, 15: 1, 25: 2, 30: 3, 99: 3}
    with Served(world, {"wait_s": 60}).asker() as asker:
        for minute, wanted in SIZES.items():
            time = None if minute is None else at(minute)
            for view in views:
                assert sizes(view.rows(at=time)) == wanted
                assert sizes(view.rows({"page": "/a"}, at=time)) == {page: size for page, size in wanted.items() if page == "/a"}
            assert sizes(given(reader.answer("latest", at=time)).rows()) == wanted
            assert sizes(given(reader.answer("latest", at=time, layer="batch")).rows()).get("/a") == batch[minute]
            asked = {} if time is None else {"at": time.isoformat()}
            assert sizes(asker.get("/views/latest/rows", params=asked).json()["rows"]) == wanted
            row = asker.get("/views/latest/row", params={"key.page": "/a", **asked}).json()["row"]
            assert (row or {}).get("bytes") == wanted.get("/a")
            pages: list[str | None] = ["/c", "/b", None, "/d", "/a"]
            rows = [(page, wanted[page]) for page in pages if page in wanted]
            keys: Any = [{"page": page} for page in pages]
            looked = Client(cast("Any", asker)).lookup("latest", keys, at=time)
            assert [(row["page"], row["bytes"]) for row in looked.rows] == rows
            assert [pages[number] for number in looked.absent] == [page for page in pages if page not in wanted]
            assert (Client(cast("Any", asker)).row("latest", {"page": "/a"}, at=time) or {}).get("bytes") == wanted.get("/a")
            for view in views:
                assert sizes(view.lookup(pages, at=time).rows()) == dict(rows)
                assert [(view.get(page=page, at=time) or {}).get("bytes") for page in pages] == [*map(wanted.get, pages)]
    for minute in (None, 15):
        option = [] if minute is None else ["--at", at(minute).isoformat()]
        assert main(["query", "latest", *option, "--project", str(world.folder), "--json"]) == 0
        assert sizes(json.loads(capsys.readouterr().out)["rows"]) == SIZES[minute]


def test_rows_that_realtime_states_are_part_of_are_marked_in_every_way(tmp_path: Path) -> None:
    made = World(tmp_path, definitions=TABLED.replace('event_time="moment"', 'event_time="moment", identity=("bytes",)'))
    made.append(0, hit("/a", 1, minute=1), hit("/b", 2, minute=1), hit("/c", 3, minute=1), hit("/d", 4, minute=9))
    made.trigger()
    made.recompute(position(4))
    made.append(1, hit("/b", 5, minute=2), hit("/c", -6, minute=2), hit("/d", -7, minute=2))
    made.trigger()
    for memory in (MEMORY, 0):
        view = Connection(Store(made.tables, 3, memory)).view("latest")
        assert {row["page"]: "_exactness" in row for row in view.rows()} == {"/a": False, "/b": True, "/d": False}
        alone = [view.get(page=page) for page in ("/a", "/b", "/c", "/d")]
        assert [row and "_exactness" in row for row in alone] == [False, True, None, False]
        assert [("_exactness" in row) for row in view.lookup(["/d", "/b"]).rows()] == [True, False]


def test_a_time_is_asked_of_tables_alone(world: World) -> None:
    with pytest.raises(BadSelection, match="view 'per_page' is not a table, so it has no versions"):
        Connection(Store(world.tables, 3)).view("per_page").scan(at=NOON)
    with pytest.raises(BadSelection, match="has no time zone"):
        Connection(Store(world.tables, 3)).view("latest").scan(at=NOON.replace(tzinfo=None))
    view = Connection(Store(world.tables, 3)).view("per_page")
    for question in (lambda: view.get(page="/a", at=NOON), lambda: view.lookup(["/a"], at=NOON)):
        with pytest.raises(BadSelection, match="view 'per_page' is not a table, so it has no versions"):
            question()
    with pytest.raises(BadSelection, match="invalid time 'noon'; expected a datetime with a zone"):
        Connection(Store(world.tables, 3)).view("latest").get(page="/a", at="noon")
    with Served(world, {}).asker() as asker:
        answer = asker.post("/views/per_page/lookup", json={"keys": [{"page": "/a"}], "at": NOON.isoformat()})
        assert answer.status_code == 400
        assert "view 'per_page' is not a table, so it has no versions" in answer.json()["detail"]


def test_a_key_named_at_is_a_key(tmp_path: Path) -> None:
    changed = TABLED.replace(
        'per_page = View(source=hits, keys={"page": "page"}', 'per_page = View(source=hits, keys={"at": "page"}'
    )
    made = World(tmp_path, definitions=changed)
    made.append(0, hit("/a", 1), hit("/a", 2))
    made.trigger()
    for memory in (MEMORY, 0):
        row = Connection(Store(made.tables, 3, memory)).view("per_page").get(at="/a")
        assert row is not None
        assert row["n"] == 2


def test_estimates_over_rows_are_those_of_the_time(tmp_path: Path) -> None:
    """A view of rows with an estimate is asked at a time by a server that has it in memory, and by one that reads files."""
    changed = TABLED.replace("(per_page, latest)", "(per_page, latest, distinct)").replace(
        "\nSOURCES", '\ndistinct = View(latest.rows(), measures={"pages": approx_count_distinct("page")})\nSOURCES'
    )
    made = World(tmp_path, definitions=changed)
    made.append(0, *(hit(page, 1, minute=minute) for minute, page in enumerate("abc")))
    made.trigger()
    for memory in (1, 0):
        with Served(made, {"memory_mb": memory}).asker() as asker:
            shown = [
                asker.get(f"/views/distinct/{kind}", params={"at": at(minute).isoformat()}).json()
                for minute in (0, 1, 9)
                for kind in ("rows", "row")
            ]
            assert [(one.get("row") or one["rows"][0])["pages"] for one in shown] == [1, 1, 2, 2, 3, 3]


@pytest.mark.spark
def test_a_frame_has_the_versions_of_a_time(world: World, spark: SparkSession) -> None:
    at_now = Connection(Store(world.tables, 3)).snapshot()
    for minute in (None, 0, 25):
        rows = dataframe(spark, at_now, "latest", at=None if minute is None else at(minute)).toArrow().to_pylist()
        assert sizes(rows) == SIZES[minute]
    with pytest.raises(BadSelection, match="view 'per_page' is not a table, so it has no versions"):
        dataframe(spark, at_now, "per_page", at=NOON)


def test_plan_explain_and_recompute_name_tables(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    live = Publications(world.tables).latest()
    assert live is not None
    assert {*live.views} == {"per_page", "latest_versions"}
    with pytest.raises(BadRequest, match="'latest' is a table and has no states; recompute 'latest_versions', whose states"):
        steps(world.project, live, RecomputeRequest(views=("latest",)))
    assert main(["explain", "latest", "--project", str(world.folder)]) == 0
    assert "a table: it reads no event and stores no state" in capsys.readouterr().out
    (world.folder / "definitions.py").write_text(TABLED.replace("bytes < 0", "bytes < 1"))
    assert main(["plan", "--project", str(world.folder), "--json"]) == 3
    views = json.loads(capsys.readouterr().out)["views"]
    assert {name: view["kind"] for name, view in views.items() if name.startswith("latest")} == {
        "latest_versions": "breaking",
        "latest": "breaking",
    }


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"bytes < 0"', '"bytes"', "gone: 'bytes' is of type BIGINT; a condition is BOOLEAN"),
        ('"bytes < 0"', '"byte < 0"', "'byte < 0' names a field 'byte' that Hit does not have"),
        ('"bytes < 0"', "True", "Table: gone=True is not a condition in a text, such as 'deleted'"),
        ('{"page": "page"}, gone', '{"page": "pag"}, gone', "view 'latest_versions', key 'page': 'pag'"),
        ('key={"page": "page"}, gone', 'key="page", gone', "Table: key='page' is not a dict of expressions by name"),
        ('key={"page": "page"}, gone', "gone", "Table: key=None is not a dict of expressions by name"),
        ("Table(hits, key", "Table(hits, keys", "Table: unknown parameter 'keys'; parameters: source, key, gone"),
        ("Table(hits", "Table('hits'", "Table: 'hits' is not a Source; write Table(prices"),
        ('"bytes < 0"', '"bytes < 0", order="newest"', "Table: order='newest'; expected 'time' or 'log'"),
        ('"bytes < 0"', '"bytes < 0", fields={}', "Table: fields={} is not a dict of expressions by name"),
        ('"bytes < 0"', '"bytes < 0", fields={"valid_from": "moment"}', "Table: 'valid_from' is the name of the versions' event"),
        ('"bytes < 0"', '"bytes < 0", fields={"page": "bytes"}', "the name 'page' is already used; keys, measures and their"),
        ('"bytes < 0"', '"bytes < 0", name=5', "a view has no name: assign it to a variable or give it name='...'"),
        ("SOURCES", "up = rollup(latest, keys=())\nSOURCES", "rollup: the rows of a table cannot be united, because keys"),
        ("SOURCES", "latest_versions = replace(per_page)\nSOURCES", "view 'latest_versions': the name is taken at"),
        ('event_time="moment"', 'event_time="moment", prepare=once', "Table: the rows that once makes of one event are in no"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_table_is_refused_in_a_sentence(tmp_path: Path, old: str, new: str, sentence: str) -> None:
    assert old in TABLED
    (tmp_path / "tandem.toml").touch()
    imports = "from dataclasses import replace\n" + TABLED.replace("hits = ", "def once(hits): return hits\n\n\nhits = ")
    changed = imports.replace(old, new)
    if "latest_versions =" in changed:
        changed = changed.replace("(per_page, latest)", "(per_page, latest, latest_versions)")
    (tmp_path / "definitions.py").write_text(changed)
    with pytest.raises(DefinitionError) as error:
        project.load(tmp_path)
    assert sentence in str(error.value)
    assert str(error.value).startswith("definitions.py:")


def test_a_table_goes_out_to_a_sink(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A key that is gone leaves the target, and comes back with a later version."""
    made = World(tmp_path, definitions=TABLED + 'SINKS = (Sink(latest, to=delta_table("lake/latest"), name="lake"),)\n')
    for number, (page, size) in enumerate([("/a", 1), ("/b", 2), ("/a", -1), ("/b", 3), ("/a", 4)]):
        made.append(0, hit(page, size, minute=number))
        made.trigger()
        if number == 1:
            made.recompute(made.writer.end)
        assert main(["sink", "lake", "--once", "--project", str(tmp_path)]) == 0
        capsys.readouterr()
        wanted = Connection(Store(made.tables, 3)).view("latest").scan().to_arrow().select(["page", "bytes"]).to_pylist()
        target = DeltaTable(tmp_path / "lake" / "latest").to_pyarrow_table().select(["page", "bytes"]).to_pylist()
        assert sorted(map(str, target)) == sorted(map(str, wanted))
