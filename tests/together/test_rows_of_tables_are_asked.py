"""A view of a table's rows after every step of random stories, in every way of asking: it is that of a plain dict of rows."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from tandem.batch.recompute.plan import BadRequest, RecomputeRequest, steps
from tandem.cli.__main__ import main
from tandem.ledger.hot.chain import HotChange
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.hot.messages import HotStatus, message_of
from tandem.ledger.publish.publications import Publications
from tandem.ledger.realtime.commits import Commit
from tandem.serving.changes import watch
from tandem.serving.connection import Connection
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.memory.store import MEMORY, Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Outcome
from tandem.serving.read.provenance import Layer
from tandem.serving.spark import dataframe
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedViews, ask
from tandem.serving.sql.result_rows import to_rows
from tandem.serving.sql.sandbox import Sandbox
from tests.samples import LONGER
from tests.serving.http.served import Served
from tests.serving.world import DEFINITIONS, NOON, World, hit, position

WITH_ROWS = (
    DEFINITIONS[: DEFINITIONS.index("per_page = ")].replace("Source, View", "Source, Table, View, last")
    + """
latest = Table(hits, key={"page": "page"}, gone="bytes < 0")
sizes = View(source=latest.rows(), keys={"odd": "bytes % 2 = 1"}, measures={
    "n": count(), "bytes": total("bytes"), "largest": maximum("bytes"), "newest": last("coalesce(page, '-')")})

SOURCES = (hits,)
VIEWS = (latest, sizes)
"""
)
LAYERS: tuple[Layer, ...] = ("merged", "batch", "speed")
STORIES = 100 if LONGER else 1
STEPS = 9
Version = tuple[int, int, str | None, int]
"""Minute, offset, page and size."""


class Story:
    """A world with the versions so far, and where its cut and its newest commit are."""

    def __init__(self, folder: Path, dice: Random, definitions: str = WITH_ROWS) -> None:
        self.world, self.dice = World(folder, definitions=definitions), dice
        self.versions: list[Version] = []
        self.cut = self.end = 0

    def play(self) -> None:
        """New versions, some of them late or gone, in a micro-batch; or a recompute up to some of them."""
        if self.end > self.cut and self.dice.random() < 0.3:
            self.cut = self.end
            self.world.recompute(position(self.cut))
            return
        for _ in range(self.dice.randrange(1, 5)):
            size = self.dice.choice((-1, *range(6)))
            self.append(self.dice.randrange(30), self.dice.choice(("/a", "/b", "/c", None)), size)
        self.commit()

    def append(self, minute: int, page: str | None, size: int) -> None:
        self.versions.append((minute, len(self.versions), page, size))
        self.world.append(0, hit(page, size, minute=minute))

    def commit(self) -> None:
        self.world.trigger()
        self.end = len(self.versions)

    def rows(self, layer: str = "merged", until: int | None = None) -> dict[bool, dict[str, Any]]:
        """By key of the view, its measures over the newest versions that a layer counts."""
        start, end = {"batch": (0, self.cut), "speed": (self.cut, self.end)}.get(layer, (0, self.end))
        newest: dict[str | None, Version] = {}
        for version in sorted(self.versions[start:end]):
            if until is None or version[0] <= until:
                newest[version[2]] = version
        here = sorted(version for version in newest.values() if version[3] >= 0)
        return {
            odd: {
                "n": len(some),
                "bytes": sum(size for *_, size in some),
                "largest": max(size for *_, size in some),
                "newest": some[-1][2] or "-",
            }
            for odd in (False, True)
            if (some := [version for version in here if version[3] % 2 == odd])
        }


def by_key(rows: Sequence[Mapping[str, Any]]) -> dict[bool, dict[str, Any]]:
    return {row["odd"]: {name: row[name] for name in ("n", "bytes", "largest", "newest")} for row in rows}


def rows_of(outcome: Outcome) -> dict[bool, dict[str, Any]]:
    """The rows of an answer; none where it has none."""
    return by_key(outcome.rows()) if hasattr(outcome, "rows") else {}


def check(story: Story, connections: Sequence[Connection], reader: Reader, tokens: list[tuple[str, Any]]) -> None:
    reader.refresh()
    for connection in connections:
        connection.refresh()
    for layer in LAYERS:
        assert rows_of(reader.answer("sizes", layer=layer)) == story.rows(layer), layer
    for until in (3, 15):
        at = NOON + timedelta(minutes=until)
        assert rows_of(reader.answer("sizes", at=at)) == story.rows(until=until)
        assert all(by_key(each.view("sizes").rows(at=at)) == story.rows(until=until) for each in connections)
    assert rows_of(reader.answer("sizes", keys={"odd": True})) == {key: row for key, row in story.rows().items() if key}
    for connection in connections:
        assert by_key(connection.view("sizes").rows()) == story.rows()
        for odd in (False, True):
            row = connection.view("sizes").get(odd=odd)
            assert (None if row is None else by_key([row])[odd]) == story.rows().get(odd)
    now = connections[0].view("sizes").now()
    for token, before in tokens[-2:]:
        for of in (connections[0], Connection(Store(story.world.tables, 9))):
            changes = watch(of.store, of.pinned(), "sizes", ChangesToken.parse(token)).look(of.pinned(), renew=True)
            assert changes is not None
            after = {key: row for key, row in before.items() if key not in {row["odd"] for row in changes.gone.to_pylist()}}
            assert after | by_key(changes.rows.to_arrow().to_pylist()) == story.rows()
    tokens.append((now.token, story.rows()))


def test_after_every_step_each_way_counts_the_rows_that_the_table_has() -> None:
    seed = 3 if settings().derandomize else Random().getrandbits(32)
    for number in range(STORIES):
        with TemporaryDirectory() as folder:
            story, tokens = Story(Path(folder), Random(seed + number)), list[tuple[str, Any]]()
            tables = story.world.tables
            connections = [Connection(Store(tables, 3, memory)) for memory in (MEMORY, 0)]
            reader = Reader(tables)
            story.play()
            for _ in range(STEPS):
                story.play()
                check(story, connections, reader, tokens)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    """Versions below the cut; above it a late version, a deletion, and a version that replaces another."""
    told = Story(tmp_path, Random(7))
    for minute, page, size in ((0, "/a", 1), (10, "/a", 2), (5, "/b", 3), (7, None, 8), (9, "/c", 5)):
        told.append(minute, page, size)
    told.commit()
    told.cut = 5
    told.world.recompute(position(5))
    for minute, page, size in ((4, "/a", 9), (6, "/b", -1), (20, "/c", 6)):
        told.append(minute, page, size)
    told.commit()
    return told


WANTED = {False: {"n": 3, "bytes": 16, "largest": 8, "newest": "/c"}}


def test_http_and_sql_and_commands_answer_alike(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    assert story.rows() == WANTED
    at = (NOON + timedelta(minutes=5)).isoformat()
    with Served(story.world, {"wait_s": 1}).asker() as asker:
        document = asker.get("/views/sizes/rows").json()
        assert by_key(document["rows"]) == WANTED
        assert document["provenance"]["realtime"] == asker.get("/views/latest/rows").json()["provenance"]["realtime"]
        assert by_key(asker.get("/views/sizes/rows", params={"at": at}).json()["rows"]) == story.rows(until=5)
        assert asker.get("/views/sizes/row", params={"key.odd": "false"}).json()["row"]["bytes"] == 16
        assert {view["name"] for view in asker.get("/views").json()["views"]} == {"latest", "latest_versions", "sizes"}
    with Sandbox(StatementLimits()) as sandbox:
        joined = ask(sandbox, MergedViews(Store(story.world.tables, 7)), "SELECT odd, n, bytes, largest, newest FROM sizes")
    assert by_key(to_rows(joined.table)) == WANTED

    def run(*command: str) -> Any:
        assert main([*command, "--project", str(story.world.folder), "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    assert by_key(run("query", "sizes")["rows"]) == WANTED
    assert by_key(run("query", "sizes", "--at", at)["rows"]) == story.rows(until=5)
    assert run("check")["views"]["sizes"]["rows_of"] == "latest"
    assert run("plan")["different"] is False
    assert main(["explain", "sizes", "--project", str(story.world.folder)]) == 0
    assert "a view of the rows that table latest has: it reads no event" in capsys.readouterr().out
    assert main(["query", "sizes", "--project", str(story.world.folder)]) == 0
    assert "the rows of table latest at the same position" in capsys.readouterr().out
    assert main(["verify", "--project", str(story.world.folder)]) in (0, 1)
    capsys.readouterr()


def test_plan_and_recompute_name_views_of_rows(story: Story, capsys: pytest.CaptureFixture[str]) -> None:
    live = Publications(story.world.tables).latest()
    assert live is not None
    assert {*live.views} == {"latest_versions"}
    with pytest.raises(BadRequest, match="'sizes' is a view of the rows and has no states; recompute 'latest_versions'"):
        steps(story.world.project, live, RecomputeRequest(views=("sizes",)))

    def kinds(definitions: str) -> dict[str, str | None]:
        (story.world.folder / "definitions.py").write_text(definitions)
        assert main(["plan", "--project", str(story.world.folder), "--json"]) == 3
        return {name: view["kind"] for name, view in json.loads(capsys.readouterr().out)["views"].items()}

    assert kinds(WITH_ROWS.replace("bytes < 0", "bytes < 1")) == {
        "latest_versions": "breaking", "latest": "breaking", "sizes": "breaking"
    }  # fmt: skip
    assert kinds(WITH_ROWS.replace('maximum("bytes")', 'maximum("bytes + 1")'))["sizes"] == "breaking"
    assert kinds(WITH_ROWS.replace("latest, sizes", "latest,"))["sizes"] == "breaking"


def test_rows_that_may_change_are_marked_in_every_way(tmp_path: Path) -> None:
    """A version above the cut may have replaced a version that another row counted, so all rows are marked, or none."""
    marked = WITH_ROWS.replace('event_time="moment"', 'event_time="moment", identity=("bytes",)')
    told = Story(tmp_path, Random(1), marked)
    told.append(0, "/a", 1)
    told.append(0, "/b", 2)
    told.commit()
    told.world.recompute(position(2))

    def marks() -> list[set[bool]]:
        stores = [Connection(Store(told.world.tables, 3, memory)).view("sizes") for memory in (MEMORY, 0)]
        return [{"_exactness" in row for row in view.rows()} for view in stores]

    assert marks() == [{False}, {False}]
    told.append(1, "/a", 3)
    told.commit()
    assert marks() == [{True}, {True}]


def test_hot_commits_are_counted_until_a_commit_takes_their_place(story: Story) -> None:
    feed, world = HotFeed(lambda: 0.0), story.world
    connection = Connection(Store(world.tables, 3, hot=feed))
    assert by_key(connection.view("sizes").rows()) == WANTED
    for minute, page, size in ((30, "/a", 1), (2, "/b", 6), (31, None, -1)):
        start, story.end = world.writer.end if story.end == 8 else world.end, len(story.versions) + 1
        story.append(minute, page, size)
        folded = world.fold(start, world.end)
        commit = Commit(start, world.end, 7, "fold", at=NOON, by="test", watermark=None, **vars(folded))
        feed.apply(message_of(1, "hits", HotStatus(), HotChange(world.writer.end, commit)))
        connection.refresh()
        assert by_key(connection.view("sizes").rows()) == story.rows()
        assert connection.view("sizes").scan().provenance.hot == world.writer.end
    story.commit()
    feed.apply(message_of(1, "hits", HotStatus(), HotChange(world.writer.end)))
    connection.refresh()
    assert by_key(connection.view("sizes").rows()) == story.rows()
    assert connection.view("sizes").scan().provenance.hot is None


@pytest.mark.slow
@pytest.mark.spark
def test_a_data_frame_has_the_rows(spark: SparkSession, story: Story) -> None:
    at = Connection(Store(story.world.tables, 7)).snapshot()
    for layer in LAYERS:
        assert by_key(dataframe(spark, at, "sizes", layer=layer).toArrow().to_pylist()) == story.rows(layer), layer


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("VIEWS = (latest, sizes)", "VIEWS = (sizes,)", "view 'sizes': the table whose rows it reads is not in VIEWS"),
        ("latest.rows()", "latest.row()", "'Table' object has no attribute 'row'"),
        ("latest.rows()", "latest", "source is a Table, not a Source, such as source=orders; of a table take its rows: source="),
        ("latest.rows()", "latest.rows", "source is the method rows, not a Source, such as source=orders; of a table take its"),
        ("latest.rows()", "(hits, latest)", "view 'sizes': source: a Table is not a Source, such as source=(seen, clicks)"),
        ("bytes % 2 = 1", "byte % 2 = 1", "'byte % 2 = 1' names a field 'byte' that TableRow does not have"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, sentence: str
) -> None:
    assert old in WITH_ROWS
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(WITH_ROWS.replace(old, new))
    assert main(["check", "--project", str(tmp_path)]) != 0
    assert sentence in " ".join(capsys.readouterr().err.split())
