"""The first update of a view larger than `serving.unread_mb`: one event in pieces, or one sentence that names the setting."""

import json
from datetime import timedelta

import httpx
import pytest

from tandem.serving.changes import watch
from tandem.serving.http.routes.changes import event_pieces
from tandem.serving.read.row_filter import RowsWanted
from tests.serving.http.routes.test_changes_are_streamed import stream
from tests.serving.http.served import Served, serving
from tests.serving.world import NOON, World, hit

ROWS = 8_000
MIB = 1 << 20


def page(number: int) -> str:
    return f"/a-page-with-a-long-name/{number:06}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    made = World(tmp_path_factory.mktemp("world"), appended=NOON + timedelta(days=3))
    made.append(0, *(hit(page(n), n % 7) for n in range(ROWS)))
    for partition in (0, 1):
        made.append(partition, hit("/later", 1, minute=3_000))
    made.trigger()
    return made


@pytest.mark.parametrize("output", ["changes", "append"])
def test_a_snapshot_larger_than_the_limit_is_one_event(world: World, output: str) -> None:
    served = Served(world, {"unread_mb": 1})
    with serving(served) as address, stream(address, served.token(output), params={"output": output}) as events:
        event = next(events)
    data = event["data"]
    rows = data["rows"] if output == "append" else [change["after"] for change in data["changes"] if change["op"] == "r"]
    assert event["id"]
    assert len(json.dumps(data)) > MIB, "larger than the limit"
    assert len(rows) == ROWS + (output == "changes"), "no row of a window that is not final yet is in the output append"
    assert {row["page"] for row in rows} - {"/later"} == {page(n) for n in range(ROWS)}


def test_without_room_for_its_rows_the_setting_is_named(world: World) -> None:
    served = Served(world, {"unread_mb": 1})
    secret = served.token("without room")
    assert served.server.unread.take("somebody", 900_000)  # a response that nobody reads
    with serving(served) as address:
        with stream(address, secret, params={"output": "changes"}) as events:
            event = next(events)
        assert event["event"] == "over"
        assert "clients have not read 900000 bytes yet, and serving.unread_mb bounds both" in event["data"]["detail"]
        served.server.unread.give_back("somebody", 900_000)
        with stream(address, secret, params={"output": "changes"}) as events:
            assert next(events)["event"] == "changes"
    assert served.server.unread.used == 0


def test_pieces_are_small_and_make_one_event(world: World) -> None:
    server = Served(world).server
    store = server.lane.cache.store
    store.refresh()
    update = watch(store, store.pinned(), "per_page", None, RowsWanted(output="changes")).look(store.pinned())
    assert update is not None
    pieces = list(event_pieces(update, "changes", server, None, bound=False))
    whole = b"".join(pieces)
    assert len(whole) > 10 * max(map(len, pieces))
    document = json.loads(whole.partition(b"data: ")[2])
    assert document["changes"] == update.envelopes()


def test_a_client_that_leaves_in_the_middle_gives_its_room_back(world: World) -> None:
    served = Served(world, {"unread_mb": 1})
    headers = {"Authorization": f"Bearer {served.token('leaving')}"}
    with serving(served) as address:
        for _ in range(3):
            with httpx.stream("GET", f"{address}/views/per_page/changes?output=changes", headers=headers, timeout=60) as answer:
                assert next(answer.iter_bytes())
    assert served.server.unread.used == 0
