"""A view over several sources answers from memory, files and any token as the model does, wherever each source stands."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from tandem.batch.recompute.plan import RecomputeRequest, steps
from tandem.batch.release.starting_time import Start, starting
from tandem.cli.__main__ import main
from tandem.ledger.log.positions import lower, upper
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.changes import watch
from tandem.serving.connection import Connection
from tandem.serving.http.protocol.formats import provenance
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.spark import dataframe
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedViews, ask
from tandem.serving.sql.result_rows import to_rows
from tandem.serving.sql.sandbox import Sandbox
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.from_time import from_time
from tandem.views.project import project
from tests.agreement.oracle import plain
from tests.samples import LONGER
from tests.serving.http.served import Served
from tests.serving.world import NOON
from tests.together import model
from tests.together.two_sources import MODELS, ONE_TOPIC, SOURCES, TWO_TOPICS, VIEWS, TwoSources, event, rows_of_model

Tokens = dict[str, list[tuple[str, dict[tuple[Any, ...], Any]]]]
"""By view, the tokens so far with the rows there."""
STORIES = 60 if LONGER else 1
STEPS = 8


def some_events(dice: Random, source: str) -> list[bytes]:
    kind = "seen" if source == "seen" else "click"
    return [
        event(
            kind,
            dice.choice(("A", "B", None)),
            dice.choice((0, 59, 60, dice.randrange(-200, 200))),
            dice.randrange(9) if kind == "seen" else dice.choice(("Ann", "Bea")),
        )
        for _ in range(dice.randrange(1, 4))
    ]


def begin(world: TwoSources, dice: Random) -> None:
    """Two micro-batches of each source, the first of which is below its cut."""
    for source in (*SOURCES, *SOURCES):
        world.append(source, *some_events(dice, source))
        world.commit(source)
    for source in SOURCES:
        world.recompute(source, world.sides[source].ends[0])


def play(world: TwoSources, dice: Random) -> None:
    """One step: a micro-batch of a source, or a recompute of one up to one of its boundaries, from its cut or from the start."""
    source = dice.choice(SOURCES)
    side = world.sides[source]
    ahead = [end for end in side.ends if side.cut.at_or_below(end) and end != side.cut]
    if ahead and dice.random() < 0.35:
        world.recompute(source, dice.choice(ahead), whole=dice.random() < 0.4)
    else:
        world.append(source, *some_events(dice, source))
        world.commit(source)


def model_rows(world: TwoSources, view: str, layer: model.Layer = "merged") -> list[dict[str, Any]]:
    """The model's rows as JSON has them, in the order of answers."""
    rows = []
    for (key, (start, end)), row in rows_of_model(world, view, layer).items():
        named = dict(zip(MODELS[view].names, key, strict=True))
        rows.append({**named, "window_start": start, "window_end": end, "window_state": row.state, **row.values})
    return rows


def texts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows in one order, without labels of duplicates."""

    def text(row: Mapping[str, Any]) -> str:
        return str(sorted((name, value_of(value)) for name, value in row.items() if not name.startswith("_")))

    return sorted(map(text, rows))


def value_of(value: Any) -> Any:
    return value.astimezone(UTC).isoformat() if isinstance(value, datetime) else plain(value)


def check(world: TwoSources, connection: Connection, reader: Reader) -> None:
    snapshot = reader.refresh()
    connection.refresh()
    for view in VIEWS:
        for layer in ("merged", "batch", "speed"):
            answer = given(reader.answer(view, layer=layer))
            assert texts(answer.table.to_pylist()) == texts(model_rows(world, view, layer)), (view, layer)
        now = connection.view(view)
        assert texts(now.scan().table.to_pylist()) == texts(model_rows(world, view)), view
        whence = now.scan().provenance
        assert {name: each.cut for name, each in whence.sources.items()} == {name: world.sides[name].cut for name in SOURCES}
        assert {name: each.realtime for name, each in whence.sources.items()} == {
            name: world.sides[name].writer.end for name in SOURCES
        }
        ends = [side.writer.end for side in world.sides.values()]
        assert whence.realtime == (upper(*ends) if world.topic("seen") != world.topic("clicks") else lower(*ends))
        marks = [each.watermark for each in whence.sources.values()]
        assert whence.watermark == (None if None in marks else min(mark for mark in marks if mark is not None))
    assert snapshot


@pytest.mark.each_run("two topics")
@pytest.mark.parametrize("definitions", [TWO_TOPICS, ONE_TOPIC], ids=["two topics", "one topic"])
def test_after_every_step_all_answers_are_the_models(definitions: str) -> None:
    seed = 5 if settings().derandomize else Random().getrandbits(32)
    for story in range(STORIES):
        dice = Random(seed + story)
        with TemporaryDirectory() as folder:
            world = TwoSources(Path(folder), definitions)
            connection, reader = Connection(Store(world.tables, 3)), Reader(world.tables)
            tokens: Tokens = {view: [] for view in VIEWS}
            begin(world, dice)
            for _ in range(STEPS):
                play(world, dice)
                check(world, connection, reader)
                check_changes(world, connection, tokens)


def check_changes(world: TwoSources, connection: Connection, tokens: Tokens) -> None:
    """From each earlier token, in this process and in a new one, the changes lead from the rows there to those of now."""
    for view, earlier in tokens.items():
        now = connection.view(view).now()
        rows = {key_of(row): row for row in now.scan().to_arrow().to_pylist()}
        for token, before in earlier[-2:]:
            for of in (connection, Connection(Store(world.tables, 9))):
                pinned = of.pinned()
                changes = watch(of.store, pinned, view, ChangesToken.parse(token)).look(pinned, renew=True)
                assert changes is not None
                assert changes.token == now.token
                after = dict(before)
                for row in changes.gone.to_pylist():
                    after.pop(key_of(row))
                for row in changes.rows.to_arrow().to_pylist():
                    after[key_of(row)] = row
                assert without_label(after) == without_label(rows)
        earlier.append((now.token, rows))


def key_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row.get("ad"), row.get("window_start")


def without_label(rows: Mapping[Any, Mapping[str, Any]]) -> dict[Any, dict[str, Any]]:
    return {key: {name: value for name, value in row.items() if name != "window_state"} for key, row in rows.items()}


@pytest.fixture
def both(tmp_path: Path) -> TwoSources:
    """Two sources that stand elsewhere each: both have a batch version and commits after it."""
    world = TwoSources(tmp_path)
    begin(world, Random(11))
    world.append("clicks", event("click", "C", 7, "Cy"))
    world.commit("clicks")
    return world


def test_http_and_sql_answer_as_the_model(both: TwoSources) -> None:
    wanted = texts(model_rows(both, "hourly"))
    world: Any = both  # a server needs its folder alone
    served = Served(world, {"wait_s": 0.5})
    with served.asker() as asker:
        answer = asker.get("/views/hourly/rows")
        assert answer.status_code == 200, answer.text
        document = answer.json()
        assert texts([with_times(row) for row in document["rows"]]) == wanted
        whence = document["provenance"]
        assert {*whence["sources"]} == {"seen", "clicks"}
        assert whence["realtime"] == {
            "T-seen": {"0": both.end("seen")["T-seen", 0]},
            "T-clicks": {"0": both.end("clicks")["T-clicks", 0]},
        }
        assert all("age_s" not in each and each["newest"] for each in whence["sources"].values())
        state = asker.get("/views/hourly").json()
        assert (state["source"], state["state"]["realtime"]) == ("seen+clicks", whence["realtime"])
        assert [view["name"] for view in asker.get("/views").json()["views"]] == ["plain", "hourly", "ever"]
        position = json.dumps(whence["realtime"])
        assert asker.get("/views/hourly/rows", params={"min_position": position}).status_code == 200
        further = json.dumps({"T-clicks": {"0": both.end("clicks")["T-clicks", 0] + 1}})
        late = asker.get("/views/hourly/rows", params={"min_position": further})
        assert late.status_code == 504, late.text
    restricted = provenance(Connection(Store(both.tables, 7)).view("hourly").scan().provenance, bound=True)
    assert "sources" not in restricted
    assert restricted["realtime"] is None
    views = MergedViews(Store(both.tables, 7))
    with Sandbox(StatementLimits()) as sandbox:
        joined = ask(sandbox, views, "SELECT * FROM hourly JOIN ever ON true")
        rows = to_rows(ask(sandbox, views, "SELECT * FROM hourly").table)
    assert {*joined.provenance} == {"hourly", "ever"}
    assert texts([with_times(row) for row in rows]) == wanted


def with_times(row: Mapping[str, Any]) -> dict[str, Any]:
    times = ("window_start", "window_end")
    return {name: datetime.fromisoformat(value) if name in times and value else value for name, value in row.items()}


def test_commands_answer_for_the_whole(both: TwoSources, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*command: str) -> Any:
        assert main([*command, "--project", str(both.folder), "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    assert [*run("check")["views"]] == [*run("views")["views"]] == [*run("status")["views"]] == ["plain", "hourly", "ever"]
    rows = run("query", "hourly")["rows"]
    assert texts([with_times(row) for row in rows]) == texts(model_rows(both, "hourly"))
    assert {*run("explain", "ever")["parts"]} == {"seen", "clicks"}
    assert run("plan")["different"] is False
    assert main(["query", "hourly", "--project", str(both.folder)]) == 0
    assert "of clicks up to {T-clicks/0: " in capsys.readouterr().out
    both.project.folder and (both.folder / "definitions.py").write_text(
        TWO_TOPICS.replace("count(of=clicks)", 'count(of=clicks, filter="ad IS NOT NULL")')
    )
    assert main(["plan", "--project", str(both.folder), "--json"]) == 3
    views = json.loads(capsys.readouterr().out)["views"]
    assert {name: view["status"] for name, view in views.items()} == {
        "plain": "unchanged",
        "hourly": "changed",
        "ever": "changed",
        "hourly__seen": "unchanged",
        "hourly__clicks": "changed",
    }
    assert "measure 'clicked'" in views["hourly"]["changes"][0]["words"]
    assert {name for name, view in views.items() if view["work"]} == {"hourly__clicks"}


def test_a_recompute_of_the_whole_is_of_its_parts(both: TwoSources) -> None:
    live = Publications(both.tables).latest()
    assert live is not None
    planned = steps(both.project, live, RecomputeRequest(views=("hourly",)))
    assert [(step.source, [*step.views]) for step in planned] == [("seen", ["hourly__seen"]), ("clicks", ["hourly__clicks"])]
    (both.folder / "definitions.py").write_text(TWO_TOPICS.replace('maximum("cost"', 'maximum("cost + 1"'))
    with pytest.raises(DefinitionError, match="'hourly' reads several sources, so it has one definition for all times"):
        from_time(project.load(both.folder), both.project, {"seen": NOON, "clicks": NOON})


@pytest.mark.parametrize(("old", "new"), [("clicked / shown", "shown / clicked"), ("hours=1", "hours=1")])
@pytest.mark.parametrize("start", ["now", NOON])
def test_what_several_sources_derive_is_of_one_definition_too(both: TwoSources, old: str, new: str, start: Start) -> None:
    """The parts of a view stay the same where only what it derives from them changes."""
    live = Publications(both.tables).latest()
    assert live is not None
    (both.folder / "definitions.py").write_text(TWO_TOPICS.replace(old, new))
    wanted, releases = project.load(both.folder), Releases(both.tables)
    if old == new:
        assert starting(releases, live, wanted, start).files == wanted.files
        return
    with pytest.raises(DefinitionError, match="'hourly' reads several sources, so it has one definition for all times"):
        starting(releases, live, wanted, start)
    assert starting(releases, live, wanted, None).files == wanted.files


@pytest.mark.slow
@pytest.mark.spark
def test_a_data_frame_of_several_sources_has_the_models_rows(spark: SparkSession, both: TwoSources) -> None:
    at = Connection(Store(both.tables, 7)).snapshot()
    layers: tuple[model.Layer, ...] = ("merged", "batch", "speed")
    for view in VIEWS:
        for layer in layers:
            rows = dataframe(spark, at, view, layer=layer).toArrow().to_pylist()
            assert texts(rows) == texts(model_rows(both, view, layer)), (view, layer)
