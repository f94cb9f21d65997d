"""Operators page through the quarantine, and decode it with the project's folder, in a separate process."""

import asyncio
import json
import os
import shutil
from collections import Counter
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tests.infra.process.test_bounded_child import ended
from tests.serving.http.served import WAITING, Served
from tests.serving.world import DEFINITIONS, World, hit

BAD = (b'{"moment": "2026-11-01T12:00:00Z", "page": "/x", "bytes": "12", "price": "0.10"}', b"no JSON at all", b"\xff")
LAX = DEFINITIONS.replace(
    'hits = Source(topic="hits", event=Hit, event_time="moment")',
    """
import msgspec


def lenient(value: bytes) -> Hit:
    read = msgspec.json.decode(value)
    return msgspec.convert({**read, "bytes": int(read["bytes"]), "page": "p" * 300}, Hit, strict=False)


hits = Source(topic="hits", event=Hit, event_time="moment", decoder=lenient)
""",
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("world"))
    made.append(0, hit("/a", 1), *BAD)
    made.append(1, BAD[1], hit("/b", 2))
    made.file_in_archive()
    return made


@pytest.fixture
def served(world: World) -> Served:
    (world.folder / "definitions.py").write_text(DEFINITIONS)
    shutil.rmtree(world.tables.control("tokens"), ignore_errors=True)
    return Served(world)


def places(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


@pytest.mark.anyio
async def test_the_newest_come_first_with_reasons_and_counts(served: Served) -> None:
    async with served.client() as client:
        found = (await client.get("/quarantine/hits")).json()
        assert found["counts"] == Counter(row["reason"] for row in found["rows"])
        assert places(found["rows"]) == [(0, 3), (0, 2), (0, 1), (1, 0)]
        assert (found["rows"][0]["value"], found["rows"][1]["value"]) == ("\\xff", "no JSON at all")
        assert (found["source"], found["next"]) == ("hits", None)
        paged, before = [], ""
        for _ in range(4):
            page = (await client.get(f"/quarantine/hits?limit=1{before}")).json()
            paged += page["rows"]
            before = f"&before={page['next']}"
        assert (paged, page["next"]) == (found["rows"], None)
        reason = found["rows"][1]["reason"]
        assert places((await client.get(f"/quarantine/hits?reason={reason}")).json()["rows"]) == [(0, 2), (1, 0)]
        refused = await client.get("/quarantine/hits?before=yesterday")
        assert (refused.status_code, "invalid cursor" in refused.json()["detail"]) == (400, True)
        absent = await client.get("/quarantine/hit")
        assert (absent.status_code, absent.json()["detail"]) == (404, "no source 'hit'; sources: hits")


@pytest.mark.slow
@pytest.mark.anyio
async def test_records_are_decoded_with_the_folders_decoder(served: Served, capsys: pytest.CaptureFixture[str]) -> None:
    async with served.client() as client:
        before = (await client.post("/quarantine/hits/retry", json={})).json()
        assert (before["decoder_changed"], before["tried"], before["events"], len(before["would_fail"])) == (False, 4, 0, 4)
        (served.world.folder / "definitions.py").write_text(LAX)
        found = (await client.post("/quarantine/hits/retry", json={})).json()
        assert (found["decoder_changed"], found["tried"], found["events"], found["others"]) == (True, 4, 1, 0)
        (event,) = found["would_be"]
        assert (event["partition"], event["offset"], event["number"]) == (0, 1, 1)
        assert event["events"] == [{"moment": "2026-11-01T12:00:00Z", "page": "p" * 200 + "...", "bytes": 12, "price": "0.10"}]
        assert sorted(places(found["would_fail"])) == [(0, 2), (0, 3), (1, 0)]
        assert sum(found["reasons"].values()) == 3
        at = [{"topic_id": "T", "partition": 0, "offset": offset} for offset in (0, 2)]
        chosen = (await client.post("/quarantine/hits/retry", json={"at": at})).json()
        assert (places(chosen["would_be"]), places(chosen["would_fail"])) == ([(0, 0)], [(0, 2)])
        newest = (await client.post("/quarantine/hits/retry", json={"limit": 1})).json()
        assert places(newest["would_fail"]) == [(0, 3)]
    assert main(["quarantine", "--retry", "--project", str(served.world.folder), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found
    assert main(["quarantine", "--retry", "--project", str(served.world.folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "4 records: 1 would be events, 3 would not"
    assert lines[1].startswith("  T/0:1: moment=2026-11-01T12:00:00Z page=ppp")
    assert lines[-1].startswith("`tandem apply` and `tandem promote` decode all records, including these")


@pytest.mark.anyio
async def test_invalid_definitions_are_the_answer(served: Served) -> None:
    (served.world.folder / "definitions.py").write_text(DEFINITIONS.replace("hits", "visits"))
    async with served.client() as client:
        gone = await client.post("/quarantine/hits/retry", json={})
        assert (gone.status_code, "does not define source 'hits'; sources: visits" in gone.json()["detail"]) == (503, True)
        (served.world.folder / "definitions.py").write_text("SOURCES = 3")
        broken = await client.post("/quarantine/hits/retry", json={})
        assert (broken.status_code, "definitions.py" in broken.json()["detail"]) == (503, True)


@pytest.mark.slow
@pytest.mark.anyio
async def test_a_client_that_leaves_ends_the_command(served: Served) -> None:
    told = served.world.folder / "told"
    os.mkfifo(told)
    (served.world.folder / "definitions.py").write_text(
        f"import os\nimport pathlib\npathlib.Path('told').write_text(str(os.getpid()))\n{WAITING}"
    )
    async with served.client() as client:
        waiting = asyncio.create_task(client.post("/quarantine/hits/retry", json={}))
        process = int(await asyncio.to_thread(told.read_text))
        second = await client.post("/quarantine/hits/retry", json={})
        assert (second.status_code, "another request is decoding records" in second.json()["detail"]) == (409, True)
        waiting.cancel()
        assert await asyncio.to_thread(ended, process)


def test_a_failed_command_is_one_sentence(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (world.folder / "definitions.py").write_text(DEFINITIONS)
    refused = {
        ("--at", "T/0:1"): "--at needs --retry",
        ("--retry", "--at", "T/0"): "invalid --at 'T/0'; expected TOPIC_ID/PARTITION:OFFSET",
        ("--retry", "--limit", "1001"): "1001 records are too many to decode again at once; at most 1000",
        ("--retry", "--source", "hit"): "no source 'hit'; sources: hits",
    }
    for options, says in refused.items():
        assert main(["quarantine", *options, "--project", str(world.folder), "--json"]) == 1
        assert says in json.loads(capsys.readouterr().out)["error"]
    assert main(["quarantine", "--reason", "utf8", "--project", str(world.folder), "--json"]) == 0
    assert places(json.loads(capsys.readouterr().out)["rejects"]) == [(0, 3)]
