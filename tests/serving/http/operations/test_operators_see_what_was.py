"""History, audits and status equal the commands' output for permitted views; the broker delays nothing."""

import asyncio
import json
import socket
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.infra.settings import KafkaSettings, Settings
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.audits import Audit, AuditFigures, Audits
from tandem.ledger.publish.publications import Publications
from tandem.serving.status.pipeline import Pipeline, TtlCache
from tandem.serving.status.sink_report import SinkReporter
from tests.serving.http.served import Served
from tests.serving.world import DEFINITIONS, NOON, SOURCE, World, forty_hits, hit, one_ready, position

FIGURES = AuditFigures(10, 2, 2, 3.0, 0.5, 0.01, 1e-9, "late copies", ({"row": {"page": "/a"}, "served": 1, "found": 2},))
AUDIT = Audit(NOON, 1, 1, 1, "per_page", "n", LOG_START, position(20), None, FIGURES)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    world = one_ready(tmp_path_factory.mktemp("world"))
    Publications(world.tables).publish(
        lambda live: live and replace(live, release=2, kind="promote", by="test", why="fewer bots")
    )
    Audits(world.tables).record([AUDIT, replace(AUDIT, view="ever"), replace(AUDIT, view="gone", measure="", figures=None)])
    Audits(world.tables).record([replace(AUDIT, version=2)])
    return Served(world)


async def got(served: Served, path: str, **rights: Any) -> Any:
    async with served.client(served.token(f"{path} {rights}", **rights) if rights else None) as client:
        answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def printed(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert main([*arguments, "--project", str(world.folder), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.anyio
async def test_history_equals_the_commands_output(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    expected = printed(served.world, capsys, "history")["publications"]
    found = await got(served, "/history")
    shown = [
        {**one, "diff": one["diff"] and {name: _given(view) for name, view in one["diff"].items()}}
        for one in found["publications"]
    ]
    assert shown == expected
    assert [one["kind"] for one in expected] == ["promote", "recompute", "initial"]
    assert (expected[0]["why"], expected[0]["diff"]["per_page"]["changed"]) == ("fewer bots", 2)
    newest = await got(served, "/history?limit=1")
    assert ([one["publication"] for one in newest["publications"]], newest["total"]) == ([3], 3)


def _given(view: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in view.items() if value is not None}


@pytest.mark.anyio
async def test_history_has_only_readable_views(served: Served) -> None:
    one = (await got(served, "/history", views=["ever"]))["publications"][0]
    assert (list(one["views"]), list(one["diff"]), list(one["cuts"])) == (["ever"], ["ever"], [SOURCE])
    bound = (await got(served, "/history", rows=["page=/a"]))["publications"][0]
    assert (list(bound["views"]), bound["diff"]) == (["per_page"], None)
    nothing = (await got(served, "/history", views=["of another project"]))["publications"][0]
    assert (nothing["views"], nothing["diff"], nothing["cuts"]) == ({}, {}, {})


@pytest.mark.anyio
async def test_audits_equal_the_commands_output(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    expected = printed(served.world, capsys, "audit")["audits"]
    assert (await got(served, "/audits"))["audits"] == expected
    assert [(one["version"], one["view"]) for one in expected] == [(2, "per_page"), (1, "gone"), (1, "ever"), (1, "per_page")]
    assert (await got(served, "/audits?view=per_page&limit=1"))["audits"] == expected[:1]
    assert (await got(served, "/audits?view=gone"))["audits"] == expected[1:2]
    assert (await got(served, "/audits?view=inverse"))["audits"] == []


@pytest.mark.anyio
async def test_audits_are_only_of_readable_views(served: Served) -> None:
    found = await got(served, "/audits", views=["ever"])
    assert [one["view"] for one in found["audits"]] == ["ever"]
    async with served.client(served.token("of ever", views=["ever"])) as client:
        refused = [await client.get(f"/audits?view={name}") for name in ("per_page", "per_pagy")]
    assert [answer.status_code for answer in refused] == [404, 404]
    assert refused[0].text.replace("per_page", "per_pagy") == refused[1].text
    async with served.client(served.token("bound", rows=["page=/a"])) as client:
        answer = await client.get("/audits")
    assert (answer.status_code, "which compare all rows" in answer.json()["detail"]) == (403, True)


@pytest.mark.anyio
async def test_status_reports_the_archive_and_why_the_log_is_unknown(tmp_path: Path) -> None:
    served = Served(forty_hits(tmp_path))
    source = (await got(served, "/status"))["sources"][SOURCE]
    assert source["archive"] == {"end": {"T": {"0": 31}}, "records": 31}
    assert (source["log"]["end"], source["log"]["lag"], source["until_loss"]) == (None, None, None)
    assert "is not running; start it with `tandem up`" in source["log"]["problem"]
    narrowed = (await got(served, "/status", views=["per_page"]))["sources"][SOURCE]
    assert narrowed["log"]["problem"] == "the broker does not answer"


@pytest.mark.anyio
async def test_status_lists_the_topics_of_a_pattern(tmp_path: Path) -> None:
    definitions = DEFINITIONS.replace("import Event,", "import Event, pattern,").replace('topic="hits"', 'topic=pattern("h.*")')
    world = World(tmp_path, definitions=definitions)
    world.append(0, hit("/a", 1))
    world.trigger()
    ArchiveLedger(world.tables, SOURCE).name_topics({"hits": "T", "hats": "U"}, at=NOON)
    served = Served(world)
    source = (await got(served, "/status"))["sources"][SOURCE]
    topics = [{"name": "hits", "id": "T", "state": "unknown"}, {"name": "hats", "id": "U", "state": "unknown"}]
    assert (source["topic_pattern"], source["topics"]) == ("h.*", topics)
    bound = (await got(served, "/status", rows=["page=/a"]))["sources"][SOURCE]
    assert (bound["topic_pattern"], bound["topics"]) == (None, None)


@pytest.mark.anyio
async def test_status_has_the_releases_beside_the_live_one(tmp_path: Path) -> None:
    served = Served(one_ready(tmp_path))
    assert (await got(served, "/status"))["standing"] == [{"release": 2, "stage": "ready", "why": None, "lag": {SOURCE: 10}}]


@pytest.mark.anyio
async def test_status_has_the_sinks_of_readable_views(tmp_path: Path) -> None:
    served = Served(forty_hits(tmp_path))
    reporter = SinkReporter(tmp_path / ".tandem", "lake", "per_page", SOURCE, lambda: NOON)
    reporter.add_failure("no store at 10.0.0.1")
    (sink,) = (await got(served, "/status"))["sinks"]
    assert (sink["sink"], sink["state"], sink["errors"], sink["error"]) == ("lake", "failing", 1, "no store at 10.0.0.1")
    assert sink["problem"] == "sink lake fails, and is tried again: no store at 10.0.0.1"
    (narrowed,) = (await got(served, "/status", views=["per_page"]))["sinks"]
    assert (narrowed["errors"], narrowed["error"], narrowed["problem"]) == (1, None, None)
    (bound,) = (await got(served, "/status", rows=["page=/a"]))["sinks"]
    assert (bound["state"], bound["errors"], bound["error"]) == ("failing", None, None)
    assert (await got(served, "/status", views=["ever"]))["sinks"] == []


@pytest.mark.anyio
async def test_a_silent_broker_delays_nothing(served: Served) -> None:
    """It takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kafka = KafkaSettings(bootstrap=f"127.0.0.1:{silent.getsockname()[1]}", timeout_s=2)
        pipeline = Pipeline(Settings(state=str(served.world.state), kafka=kafka), served.world.tables, lambda: NOON, lambda: 0.0)
        source = served.world.project.sources[SOURCE]
        async with asyncio.timeout(10):
            found = await pipeline.log([source], release=1)
            assert found.end(SOURCE).problem == "the broker has not answered within 0.8 s"
            while "within 0.8" in str((told := await pipeline.log([source], release=1)).end(SOURCE).problem):
                pass
        assert "did not answer in 2 s" in str(told.end(SOURCE).problem)


@pytest.mark.anyio
async def test_one_poll_serves_all_and_is_cached() -> None:
    seconds, looked, go = 0.0, list[int](), threading.Event()
    recent = TtlCache[int](3, lambda: seconds)

    def look() -> int:
        looked.append(len(looked))
        assert go.wait(60)
        return looked[-1]

    assert await asyncio.gather(*(recent.get_within(0.01, look) for _ in range(5))) == [None] * 5
    go.set()
    assert await asyncio.gather(*(recent.get(look) for _ in range(5))) == [0] * 5
    assert await recent.get(look) == 0
    seconds = 3.5
    assert await recent.get(look) == 1
    assert looked == [0, 1]


@pytest.mark.anyio
async def test_an_error_of_a_poll_is_raised_and_not_cached() -> None:
    recent = TtlCache[int](3, lambda: 0.0)
    with pytest.raises(ZeroDivisionError):
        await recent.get(lambda: 1 // 0)
    assert await recent.get(lambda: 1) == 1
