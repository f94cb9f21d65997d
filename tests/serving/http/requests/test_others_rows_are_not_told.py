"""A token restricted to rows gets the same bytes from every route, whatever the other rows are."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tandem.ledger.delta import delta_tables
from tandem.ledger.log.gaps import Gaps
from tandem.serving.access.sealed_text import KEY
from tandem.serving.http.protocol.media_types import ARROW, CSV, JSON, NDJSON
from tandem.serving.http.requests.gate import gated
from tandem.serving.memory.changes_token import ChangesToken
from tandem.views import exactness
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Ranges
from tests.serving.http.requests.test_who_may_what import NO_RUN, REQUESTS
from tests.serving.http.routes.test_changes_are_streamed import stream
from tests.serving.http.served import Served, serving
from tests.serving.world import APPENDED, DEFINITIONS, NOON, SOURCE, TOPIC_ID, World, hit, position

MINE = {"key.page": "/a", "window": "2026-11-01T12:00"}
OTHERS = (1, 7)
"""How many rows, events and lost offsets of others there are, in the one world and in the other."""


def made(folder: Path, others: int) -> World:
    """A batch, a tail, a gap, records that are no events, late and rejected ones: of the rows of `/a` always the same."""
    folder.mkdir()
    definitions = DEFINITIONS.replace('event_time="moment")', 'event_time="moment", identity=("bytes",))')
    # The newest record of each partition was appended at the same time, in whichever world.
    world = World(folder, definitions=definitions, appended=APPENDED - timedelta(seconds=others))
    world.append(0, hit("/a", 1), hit("/a", 2), *(hit(f"/b{n}", 100 + n) for n in range(others)), b"{broken")
    world.trigger()
    ends = 3 + others
    world.recompute(position(ends))
    world.file_in_archive()
    world.append(1, *(hit(f"/c{n}", 200 + n, minute=-600) for n in range(others)), hit("/a", 3, minute=61))
    world.trigger()
    world.append(1, hit("/d", 300))
    world.trigger()
    lost = Ranges.of({(TOPIC_ID, 0): (2, 2 + others)})
    Gaps(world.tables).record(SOURCE, lost, reason=f"{others} offsets from 2 on", at=NOON)
    return world


def cut_off(world: World) -> None:
    """Take away the commit above the cut that others follow, so that nothing can be answered."""
    handle = delta_tables.open_table(world.tables, world.tables.realtime(1, SOURCE))
    assert handle is not None
    paths = {}
    for path in delta_tables.files(handle):
        row = delta_tables.read_file(handle, path).to_pylist()[0]
        if row["kind"] == "fold":
            paths[tuple(json.loads(row["start_position"]).get(TOPIC_ID, ()))] = path
    delta_tables.conditional_replace(handle, [paths["0",]], [], at=NOON)


def everything(client: Any) -> dict[str, tuple[int, dict[str, str], bytes]]:
    """What each route, in each format, says to whoever the client is."""
    asked = [(method, path, how) for (method, path), how in REQUESTS.items() if path != "/page/{file}"]
    keys = [{"page": page} for page in ("/a", "/b0", "/b6", None, "/none")]
    asked += [("POST", "/views/per_page/lookup", {"json": {"keys": keys[at:]}}) for at in range(len(keys))]
    for page in ("/b0", "/b6", "/none"):
        other = {**MINE, "key.page": page}
        asked += [("GET", f"/views/per_page/{one}", {"params": other}) for one in ("row", "rows")]
    for media in (JSON, NDJSON, CSV, ARROW):
        headers = {"Accept": media}
        for more in ({}, {"layer": "batch"}, {"layer": "speed"}, {"publication": 2}, {"order": "-bytes", "limit": 1}):
            asked.append(("GET", "/views/per_page/rows", {"params": more, "headers": headers}))
        asked.append(("GET", "/views/per_page/row", {"params": {**MINE, "layer": "merged"}, "headers": headers}))
    asked += [
        ("GET", "/views/per_page/rows", {"params": {"min_position": json.dumps(position(offset).to_json())}})
        for offset in (0, 5, 11)
    ]
    asked.append(("GET", "/views/per_page/rows", {"params": {"max_age": "1s"}}))
    asked += [("GET", "/views/per_page/changes", {"params": {"since": text}}) for text in ("x", "sealed.x", "W10=")]
    asked += [("POST", "/mcp", {"json": called(tool, arguments)}) for tool, arguments in TOOL_CALLS]
    found = {}
    for method, path, how in asked:
        place = path.replace("{view}", "per_page").replace("{source}", SOURCE).replace("{id}", NO_RUN)
        answer = client.request(method, place, **how)
        found[f"{method} {place} {how}"] = (answer.status_code, dict(answer.headers), plain(answer))
    return found


TOOL_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("list_views", {}),
    ("describe_view", {"view": "per_page"}),
    *(("rows", {"view": "per_page", **more}) for more in ({}, {"keys": {"page": "/b0"}}, {"keys": {"page": None}})),
    ("sql", {"statement": "SELECT * FROM per_page"}),
    ("changes_since", {"view": "per_page", "since": "x"}),
    *(("why", {"view": "per_page", "keys": {"page": page}, "window": MINE["window"]}) for page in ("/a", "/b0", "/none")),
    ("receipt", {"view": "per_page"}),
    ("plan", {}),
]


def called(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}


def plain(answer: httpx.Response) -> bytes:
    """The body without cursors, which hold a digest of the snapshot; Arrow's as values, whose bytes may be laid out otherwise."""
    if answer.headers.get("content-type") == ARROW:
        table = pa.ipc.open_stream(answer.content).read_all()
        return f"{table.to_pylist()}{table.schema.metadata}".encode()
    try:
        document = answer.json()
    except ValueError:
        return answer.content
    if isinstance(document, dict) and document.get("next"):
        document["next"] = "cursor"
    return json.dumps(document).encode()


@pytest.mark.parametrize("fails", [False, True], ids=["answers", "fails"])
def test_no_answer_depends_on_hidden_rows(tmp_path: Path, *, fails: bool) -> None:
    worlds = [made(tmp_path / str(others), others) for others in OTHERS]
    for world in worlds if fails else ():
        cut_off(world)
    told: list[dict[str, Any]] = []
    for world in worlds:
        served = Served(world, {"wait_s": 1})
        secret = served.token("bound", may=("read", "sql"), rows=["page=/a"])
        sight = served.token("whole", may=("read",))
        with served.asker(secret) as asker:
            found = everything(Running(asker))
            status = Running(asker).request("GET", "/status", headers={"Authorization": f"Bearer {sight}"})
        found["whole"] = (status.status_code, {}, status.content)
        told.append(found)
        routes = {(method, route.path_format) for route in gated(served.app) for method in route.methods or ()}
        assert routes == set(REQUESTS)
    one, other = told
    assert one.pop("whole") != other.pop("whole")  # the worlds differ, for who may see that
    assert set(one) == set(other)
    hidden = ("etag", "tandem-next", "content-length")
    for place, (status, headers, body) in one.items():
        again, headers_again, body_again = other[place]
        assert status == again, place
        assert body == body_again, place
        assert {name: text for name, text in headers.items() if name not in hidden} == {
            name: text for name, text in headers_again.items() if name not in hidden
        }, place
    assert {status for status, _, _ in one.values()} >= {200, 403}
    (rows,) = (status for place, (status, _, _) in one.items() if place == "GET /views/per_page/rows {}")
    assert rows == (503 if fails else 200)


class Running:
    """A client whose server runs while a request does."""

    def __init__(self, asker: Any) -> None:
        self._asker = asker

    def request(self, method: str, path: str, **how: Any) -> httpx.Response:
        answer: httpx.Response = self._asker.runner.run(self._asker.client.request(method, path, **how))
        return answer


def test_a_stream_continues_from_an_opaque_token(tmp_path: Path) -> None:
    world = made(tmp_path / "w", 1)
    served = Served(world)
    secret, whole = served.token("bound", rows=["page=/a"]), served.token("whole")
    with serving(served) as address:
        with stream(address, secret) as found, stream(address, whole) as seen:
            world.append(1, hit("/b", 9), hit("/a", 4, minute=61))
            world.trigger()
            mine, all_ = next(found), next(seen)
        assert mine["data"]["provenance"]["realtime"] is None
        assert all_["data"]["provenance"]["realtime"] is not None
        for text in (all_["id"], mine["id"][:-2] + "AA", "sealed."):  # somebody else's, and what was not sealed here
            refused = httpx.get(
                f"{address}/views/per_page/changes",
                params={"since": text},
                headers={"Authorization": f"Bearer {secret}"},
                timeout=60,
            )
            assert (refused.status_code, "use the id of an event" in refused.text) == (400, True)
        world.append(1, hit("/b", 10), hit("/a", 5, minute=61))
        world.trigger()
        with stream(address, secret, params={"since": mine["id"]}) as found:
            (row,) = next(found)["data"]["rows"]
            assert (row["page"], row["n"]) == ("/a", 3)
    with world.tables.storage().open(KEY) as file:
        assert len(file.read()) == 32
    assert ChangesToken.parse(all_["id"]).end.get((TOPIC_ID, 0))  # as the other one's holder must not
    with pytest.raises(TandemError):
        ChangesToken.parse(mine["id"])


def test_tokens_have_one_length_whatever_they_contain(tmp_path: Path) -> None:
    seal = Served(made(tmp_path / "w", 1)).server.seal
    assert len({len(seal.close("x" * size)) for size in (1, 20, 200)}) == 1
    assert seal.open(seal.close("x")) == "x"
    assert seal.close("x") != seal.close("x")


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33], ids=len)
def test_a_damaged_key_is_reported_until_it_is_deleted(tmp_path: Path, content: bytes) -> None:
    served = Served(made(tmp_path / "w", 1))
    files = served.world.tables.storage()
    files.put_if_absent(KEY, content)
    with served.asker() as asker:
        answer = asker.get("/views/per_page/rows")
        assert (answer.status_code, answer.json()["code"]) == (503, "table-unreadable")
        assert f"has {len(content)} bytes, expected 32; restore it, or delete it" in answer.json()["detail"]
        files.delete([KEY])
        assert asker.get("/views/per_page/rows").status_code == 200


@pytest.mark.parametrize(
    "reasons",
    [
        [exactness.late_duplicate(timedelta(minutes=10), count, NOON) for count in (0, 17)],
        [exactness.conflicting_duplicate(count) for count in (1, 17)],
        [exactness.gap("hits-gap-1", count, f"{count} offsets below {count}") for count in (1, 17)],
    ],
    ids=["late duplicate", "conflicting duplicate", "gap"],
)
def test_reasons_contain_no_counts_of_all_rows(reasons: list[exactness.Reason]) -> None:
    one, other = (reason.without_counts() for reason in reasons)
    assert one.to_json() == other.to_json()
    assert one.says
    assert one.label == reasons[0].label
