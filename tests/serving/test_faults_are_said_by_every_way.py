"""A gap, a stuck speed layer, a missing file, a torn commit: every interface reports it, or fails with the reason.

The table in docs/server-health.md says the same.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.ledger.delta import delta_tables
from tandem.ledger.log.gaps import Gaps
from tandem.serving import connect
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Failed, ReadFailed
from tandem.serving.sql.limits import StatementLimits
from tandem.serving.sql.merged_views import MergedViews, ask
from tandem.serving.sql.messages import StatementRefused
from tandem.serving.sql.result_rows import to_rows
from tandem.serving.sql.sandbox import Sandbox
from tandem.views.source.offset_ranges import Ranges
from tests.serving.http.served import Served
from tests.serving.read.test_failed_is_not_absent import handle_and_paths
from tests.serving.world import NOON, SOURCE, World, nine_hits, position

WINDOW = "window=2026-11-01T12:00"
SUM = "SELECT sum(n) AS n FROM per_page"


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Nine events, of which the first three are below the cut."""
    made = nine_hits(tmp_path)
    made.recompute(position(3))
    return made


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(StatementLimits(seconds=60)) as made:
        yield made


def lose_a_commit(world: World) -> None:
    handle, paths = handle_and_paths(world)
    delta_tables.conditional_replace(handle, [paths[3]], [], at=NOON)


def lose_a_file(world: World) -> None:
    for file in Path(world.tables.view("per_page", world.live.views["per_page"].fingerprint)).glob("batch_version=1/*.parquet"):
        file.unlink()


def lose_a_commits_file(world: World) -> None:
    _, paths = handle_and_paths(world)
    (Path(world.tables.realtime(1, SOURCE)) / paths[6]).unlink()


def tear_a_commit(world: World) -> None:
    _, paths = handle_and_paths(world)
    file = Path(world.tables.realtime(1, SOURCE)) / paths[6]
    file.write_bytes(file.read_bytes()[:-100])


def tear_the_log(world: World) -> None:
    entry = max((Path(world.tables.realtime(1, SOURCE)) / "_delta_log").glob("*.json"))
    entry.write_bytes(entry.read_bytes()[:-20])


def every_way(world: World, sandbox: Sandbox) -> dict[str, Any]:
    """What each says: how many events it counts, or why it says nothing. Each looks anew, as a process that starts does."""
    found: dict[str, Any] = {}

    def say(way: str, asked: Callable[[], Any]) -> None:
        try:
            found[way] = asked()
        except (ReadFailed, StatementRefused) as error:
            found[way] = f"failed: {error}"

    answer = Reader(world.tables).answer("per_page")
    found["reader"] = f"failed: {answer.reason}" if isinstance(answer, Failed) else sum(row["n"] for row in answer.rows())
    with connect(world.folder, every_s=None) as connection:
        say("connect, rows", lambda: sum(row["n"] for row in connection.view("per_page").rows()))
        say("connect, get", lambda: connection.view("per_page").get(page="/", window=NOON)["n"])
        say("connect, lookup", lambda: sum(row["n"] for row in connection.view("per_page").lookup(["/"]).rows()))
    say("sql", lambda: to_rows(ask(sandbox, MergedViews(Store(world.tables, 1)), SUM).table)[0]["n"])
    with Served(world).asker() as asker:
        answers = {
            "http, rows": (asker.get("/views/per_page/rows"), lambda told: sum(row["n"] for row in told["rows"])),
            "http, row": (asker.get(f"/views/per_page/row?key.page=/&{WINDOW}"), lambda told: told["row"]["n"]),
            "http, lookup": (
                asker.post("/views/per_page/lookup", json={"keys": [{"page": "/"}]}),
                lambda told: sum(row["n"] for row in told["rows"]),
            ),
            "http, sql": (asker.post("/sql", json={"statement": SUM}), lambda told: told["rows"][0]["n"]),
        }
    for way, (response, counted) in answers.items():
        assert response.status_code in (200, 503), (way, response.text)
        found[way] = counted(response.json()) if response.status_code == 200 else f"failed: {response.json()['detail']}"
    return found


def test_without_a_fault_every_interface_counts_all_events(world: World, sandbox: Sandbox) -> None:
    found = every_way(world, sandbox)
    assert set(found.values()) == {9}
    assert len(found) == 9


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (lose_a_commit, "no commit starts at {T/0: 3}"),
        (lose_a_file, "cannot read table"),
        (lose_a_commits_file, "cannot read table"),
        (tear_a_commit, "cannot read table"),
        (tear_the_log, "cannot "),
    ],
)
def test_missing_or_torn_files_fail_with_the_reason_in_every_interface(
    world: World, sandbox: Sandbox, fault: Callable[[World], None], said: str
) -> None:
    fault(world)
    for way, told in every_way(world, sandbox).items():
        assert str(told).startswith("failed: "), (way, told)
        assert said in told, (way, told)
        assert "\n" not in told, way


def test_lost_offsets_are_reported_with_the_number_in_every_interface(world: World, sandbox: Sandbox) -> None:
    Gaps(world.tables).record(SOURCE, Ranges.of({("T", 0): (4, 6)}), reason="retention", at=NOON)
    assert set(every_way(world, sandbox).values()) == {9}
    answer = Reader(world.tables).answer("per_page")
    assert not isinstance(answer, Failed)
    told = [answer.provenance.to_json(now=NOON)]
    with connect(world.folder, every_s=None) as connection:
        told.append(connection.view("per_page").now().provenance.to_json(now=NOON))
    told.append(ask(sandbox, MergedViews(Store(world.tables, 1)), SUM).told(now=NOON)["views"]["per_page"])
    with Served(world).asker() as asker:
        paths = ("/views/per_page/rows", f"/views/per_page/row?key.page=/&{WINDOW}")
        told += [asker.get(path).json()["provenance"] for path in paths]
        told.append(asker.post("/views/per_page/lookup", json={"keys": [{"page": "/"}]}).json()["provenance"])
        selected = asker.post("/sql", json={"statement": SUM}).json()["provenance"]
        told += [selected["views"]["per_page"]]
        assert selected["exactness"]["label"] == "incomplete"
        csv = asker.get("/views/per_page/rows", headers={"Accept": "text/csv"})
        told.append(json.loads(csv.headers["tandem-provenance"]))
    hole = {"name": "hits-gap-1", "reason": "retention", "ranges": Ranges.of({("T", 0): (4, 6)}).to_json(), "accepted": False}
    for one in told:
        assert (one["gaps"], one["exactness"]["label"]) == ([hole], "incomplete")


def test_a_stuck_speed_layer_gives_a_number_and_its_position_in_every_interface(world: World, sandbox: Sandbox) -> None:
    """The log goes on, the realtime table does not."""
    world.append(0, b"{}")
    assert set(every_way(world, sandbox).values()) == {9}
    stands = position(9).to_json()
    with connect(world.folder, every_s=None) as connection:
        assert connection.view("per_page").now().provenance.realtime.to_json() == stands
    found = ask(sandbox, MergedViews(Store(world.tables, 1)), SUM)
    assert found.provenance["per_page"].realtime.to_json() == stands
    with Served(world, {"wait_s": 1}).asker() as asker:
        told = asker.get("/views/per_page/rows").json()["provenance"]
        assert (told["realtime"], told["newest"]) == (stands, "2026-11-01T11:50:08Z")
        assert asker.post("/sql", json={"statement": SUM}).json()["provenance"]["views"]["per_page"] == told
        late = asker.get("/views/per_page/rows", params={"max_age": "10s"})
        assert (late.status_code, "appended at 2026-11-01" in late.json()["detail"]) == (504, True)
        ahead = asker.get("/views/per_page/rows", params={"min_position": json.dumps(world.end.to_json())})
        assert ahead.status_code == 504
