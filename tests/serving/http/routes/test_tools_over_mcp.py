"""Tools of the Model Context Protocol answer what their routes answer, within the token's rights, to a client of the protocol."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent

from tandem.cli.__main__ import main
from tandem.infra.folders import tandem_version
from tandem.serving.http.protocol.json_rpc import REVISIONS
from tandem.serving.http.queries.tools import TOOLS
from tests.documented import DOCS, Command, File, steps
from tests.serving.http.served import WAITING, Asker, Served, serving
from tests.serving.http.test_the_page_on_serving import SALES, asked_as_curl
from tests.serving.why.test_the_events_behind_a_row import eventful
from tests.serving.world import DEFINITIONS, World, forty_hits, hit, position

STATEMENT = {"statement": "SELECT count(*) AS n FROM per_page"}
HOUR = {"view": "per_page", "keys": {"page": "/01"}, "window": "2026-11-01T12:00"}
ASKED: dict[str, tuple[dict[str, Any], str, str, dict[str, Any]]] = {
    "list_views": ({}, "GET", "/views", {}),
    "describe_view": ({"view": "per_page"}, "GET", "/views/per_page", {}),
    "rows": (
        {"view": "per_page", "keys": {"page": "/01"}, "measures": ["n"], "order": ["-n"], "from": "2026-11-01", "limit": 2},
        "GET",
        "/views/per_page/rows",
        {"params": {"key.page": "/01", "measures": "n", "order": "-n", "from": "2026-11-01", "limit": 2}},
    ),
    "sql": (STATEMENT, "POST", "/sql", {"json": STATEMENT}),
    "changes_since": (
        {"view": "per_page", "keys": {"page": None}, "where": "n > 3"},
        "GET",
        "/views/per_page/changes",
        {"params": {"null": "page", "where": "n > 3"}, "headers": {"Accept": "application/json"}},
    ),
    "why": (HOUR, "GET", "/views/per_page/why", {"params": {"key.page": "/01", "window": "2026-11-01T12:00"}}),
    "why_changed": (
        {"view": "per_page", "keys": {"page": "/01"}, "before": "2", "after": "2"},
        "GET",
        "/views/per_page/why-changed",
        {"params": {"key.page": "/01", "before": "2", "after": "2"}},
    ),
    "receipt": (
        {"view": "per_page"},
        "GET",
        "/views/per_page/rows",
        {"headers": {"Tandem-Receipt": "1"}, "params": {"limit": 10_000}},
    ),
    "plan": ({"run": "00000000-0000-4000-8000-000000000000"}, "GET", "/runs/00000000-0000-4000-8000-000000000000", {}),
}  # fmt: skip


@pytest.fixture
def served(tmp_path: Path) -> Served:
    return Served(forty_hits(tmp_path))


@pytest.fixture
def asker(served: Served) -> Iterator[Asker]:
    with served.asker(served.token("agent", may=("read", "sql", "admin"))) as asker:
        yield asker


def text_of(result: CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def post(asker: Asker, method: str, params: dict[str, Any] | None = None, **how: Any) -> httpx.Response:
    message = {"jsonrpc": "2.0", "id": 7, "method": method, **({} if params is None else {"params": params})}
    return asker.post("/mcp", json=message, **how)


def call(asker: Asker, tool: str, arguments: dict[str, Any], **how: Any) -> tuple[bool, Any]:
    """Whether the tool failed, and the document in its text."""
    answer = post(asker, "tools/call", {"name": tool, "arguments": arguments}, **how)
    result = answer.json()["result"]
    (content,) = result["content"]
    return result["isError"], json.loads(content["text"])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_protocols_client_lists_and_calls_tools(tmp_path: Path, mode: str) -> None:
    served = Served(forty_hits(tmp_path))

    async def session(address: str, secret: str) -> None:
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {secret}"}) as http,
            Client(streamable_http_client(f"{address}/mcp", http_client=http), mode=mode) as client,
        ):
            assert client.protocol_version == {"auto": "2026-07-28", "legacy": "2025-11-25"}[mode]
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("tandem", tandem_version())
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            assert set(tools) == {name for name, tool in TOOLS.items() if tool.needs == "read"}
            assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools.values())
            assert set(tools["rows"].input_schema["properties"]) >= {"view", "keys", "from", "to", "limit", "cursor"}
            rows = await client.call_tool("rows", {"view": "per_page", "keys": {"page": "/01"}})
            assert not rows.is_error
            assert json.loads(text_of(rows))["rows"][0]["bytes"] == 1
            wrong = await client.call_tool("rows", {"view": "per_pag"})
            assert wrong.is_error
            assert "no view 'per_pag'; views: per_page" in text_of(wrong)
            with pytest.raises(MCPError, match="unknown tool 'append'; tools of this token: "):
                await client.call_tool("append", {})

    with serving(served) as address:
        asyncio.run(session(address, served.token("reader")))


def test_a_tool_answers_what_its_route_answers(served: Served, asker: Asker) -> None:
    """For every caller: the same text, or the same problem."""
    assert set(ASKED) == set(TOOLS)
    callers = {
        "all": served.token("all", may=("read", "sql", "admin")),
        "reader": served.token("reader"),
        "analyst": served.token("analyst", may=("sql",)),
        "other view": served.token("other view", may=("read", "sql"), views=["inverse"]),
        "bound": served.token("bound", may=("read", "sql"), rows=["page=/01"]),
        "bound elsewhere": served.token("bound elsewhere", rows=["page=/02"]),
        "sender": served.token("sender", may=("ingest",)),
    }
    statuses = set()
    for secret in callers.values():
        bearer = {"Authorization": f"Bearer {secret}"}
        for tool, (arguments, method, path, how) in ASKED.items():
            headers = {**bearer, **how.get("headers", {})}
            route = asker.runner.run(asker.client.request(method, path, **{**how, "headers": headers}))
            failed, document = call(asker, tool, arguments, headers=bearer)
            direct = json.loads(route.headers.get("tandem-receipt") or route.content)
            if tool == "changes_since":
                assert (document.pop("token", None) is None) == (direct.pop("token", None) is None)  # sealed ones differ
            assert (failed, document) == (route.status_code >= 400, direct)
            statuses.add((tool, route.status_code))
    assert statuses >= {(tool, 200) for tool in set(TOOLS) - {"why", "plan"}}
    assert statuses >= {(tool, 404) for tool in set(TOOLS) - {"list_views", "sql"}}
    assert statuses >= {(tool, 403) for tool in ASKED}


def test_tools_are_listed_by_right(served: Served, asker: Asker) -> None:
    def names(*may: str, rows: Sequence[str] = ()) -> set[str]:
        secret = served.token(f"may {may} {rows}", may=may, rows=rows)
        listed = post(asker, "tools/list", headers={"Authorization": f"Bearer {secret}"}).json()["result"]["tools"]
        return {tool["name"] for tool in listed}

    assert names("sql") == {"sql"}
    assert names("admin") == {"plan"}
    assert names("read", "sql") == set(TOOLS) - {"plan"}
    assert names("ingest") == set()
    assert names("read", "sql", rows=["page=/01"]) == set(TOOLS) - {"plan", "sql", "receipt"}, "these are of all rows"


def test_other_views_and_rows_are_not_told(served: Served, asker: Asker) -> None:
    narrow = {"Authorization": f"Bearer {served.token('narrow', may=('read', 'sql'), views=['inverse'])}"}
    bound = {"Authorization": f"Bearer {served.token('bound', rows=['page=/01'])}"}
    assert [view["name"] for view in call(asker, "list_views", {}, headers=narrow)[1]["views"]] == ["inverse"]
    for tool in ("describe_view", "rows", "why", "changes_since", "receipt"):
        keys = {"keys": {"page": "/01"}, "window": "2026-11-01T12:00"} if tool == "why" else {}
        hidden, absent = (call(asker, tool, {"view": name, **keys}, headers=narrow) for name in ("per_page", "per_elfs"))
        assert hidden[0]
        assert str(hidden).replace("per_page", "per_elfs") == str(absent)
        assert "per_page" not in hidden[1]["detail"].replace("'per_page'", "")
    failed, document = call(asker, "sql", {"statement": "SELECT * FROM per_page"}, headers=narrow)
    assert (failed, document["status"]) == (True, 404)
    assert [row["page"] for row in call(asker, "rows", {"view": "per_page"}, headers=bound)[1]["rows"]] == ["/01"]
    other, nobody = (
        call(asker, "rows", {"view": "per_page", "keys": {"page": page}}, headers=bound) for page in ("/02", "/none")
    )
    assert other == nobody
    assert other[1]["status"] == 403


def test_a_call_is_one_request_of_the_token(tmp_path: Path) -> None:
    served = Served(forty_hits(tmp_path), {"rate": 1, "burst": 2, "concurrent": 1})
    with served.asker(served.token("agent")) as asker:
        assert not call(asker, "list_views", {})[0]
        assert not call(asker, "list_views", {})[0]
        refused = post(asker, "tools/call", {"name": "list_views"})
        assert (refused.status_code, refused.json()["code"]) == (429, "too-many-requests")
        served.seconds += 1
        assert not call(asker, "rows", {"view": "ever"})[0]
        served.seconds += 1
        failed, document = call(asker, "rows", {"view": "per_page", "keys": {"page": "x" * 20_000}})
        assert (failed, document["status"]) == (True, 414)


def test_a_question_is_audited_with_its_route_and_status(served: Served, asker: Asker) -> None:
    for tool, (arguments, method, path, how) in ASKED.items():
        served.questions.clear()
        asker.runner.run(asker.client.request(method, path, **how))
        call(asker, tool, arguments)
        if TOOLS[tool].needs == "admin" or tool in ("list_views", "describe_view"):
            assert served.questions == []
            continue
        direct, asked = served.questions
        assert asked == direct, "also the digest of the question is the same"
        assert asked["route"] != "/mcp"
    served.lines.clear()
    call(asker, "rows", {"view": "nothing"})
    assert (served.questions[-1]["status"], served.questions[-1]["outcome"]) == (404, "refused")
    (line,) = served.lines
    assert (line["path"], line["status"]) == ("/mcp", 200)


def test_changes_go_on_from_a_token(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.append(0, hit("/a", 1), hit("/b", 2))
    world.trigger()
    served = Served(world)
    with served.asker(served.token("all")) as asker:
        bearers = [{"Authorization": f"Bearer {served.token(name, rows=rows)}"} for name, rows in (("w", []), ("b", ["page=/a"]))]
        begun = [call(asker, "changes_since", {"view": "per_page"}, headers=bearer)[1] for bearer in bearers]
        assert [document["rows"] for document in begun] == [[], []]
        world.append(1, hit("/a", 3), hit("/b", 4))
        world.trigger()
        asker.runner.run(served.server.lane.another(served.server.lane.newest, seconds=20))
        for bearer, first, pages in zip(bearers, begun, (["/a", "/b"], ["/a"]), strict=True):
            then = call(asker, "changes_since", {"view": "per_page", "since": first["token"]}, headers=bearer)[1]
            assert [row["page"] for row in then["rows"]] == pages
            assert (then["gone"], then["provenance"]["realtime"] is None) == ([], len(pages) == 1)
            again = call(asker, "changes_since", {"view": "per_page", "since": then["token"]}, headers=bearer)[1]
            assert (again["rows"], again["gone"]) == ([], [])
        failed, document = call(asker, "changes_since", {"view": "per_page", "since": begun[0]["token"]}, headers=bearers[1])
        assert (failed, document["status"]) == (True, 400)
        whole = asker.get("/views/per_page/changes", params={"output": "changes"}, headers={"Accept": "application/json"}).json()
        assert [change["op"] for change in whole["changes"]] == ["r", "r"]
        paced = asker.get("/views/per_page/changes", params={"when": "every:10s"}, headers={"Accept": "application/json"})
        assert (paced.status_code, "needs a stream" in paced.json()["detail"]) == (400, True)


def test_too_many_changes_are_refused(tmp_path: Path) -> None:
    served = Served(forty_hits(tmp_path), {"max_rows": 10})
    with served.asker(served.token("agent")) as asker:
        refused = asker.get("/views/per_page/changes", params={"output": "changes"}, headers={"Accept": "application/json"})
        assert (refused.status_code, "31 rows changed; the limit is 10" in refused.json()["detail"]) == (400, True)


def test_why_has_the_events(tmp_path: Path) -> None:
    shop = eventful(tmp_path)
    shop.file_in_archive(position(8))
    served = Served(shop)
    with served.asker(served.token("agent")) as asker:
        row = {"view": "hourly", "keys": {"city": "OSLO"}, "window": "2026-11-01T08:00Z", "listed": 1}
        failed, document = call(asker, "why", row)
        assert (failed, document["agrees"], len(document["sources"]["sales"]["listed"])) == (False, True, 1)


@pytest.mark.slow
def test_a_plan_that_takes_long_is_asked_again(tmp_path: Path) -> None:
    world = forty_hits(tmp_path)
    served = Served(world, {"timeout_s": 60})
    with served.asker(served.token("boss", may=("admin",))) as asker:
        failed, document = call(asker, "plan", {})
        assert (failed, document["state"], document["document"]["different"]) == (False, "done", False)
    (world.folder / "definitions.py").write_text(WAITING)
    served = Served(world, {"timeout_s": 2})
    with served.asker(served.token("boss 2", may=("admin",))) as asker:
        _, started = call(asker, "plan", {})
        assert started["state"] == "running"
        assert call(asker, "plan", {})[1]["status"] == 409
        assert call(asker, "plan", {"run": started["id"]})[1]["state"] == "running"


ALONE = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
NAMES = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
LIST_ALONE = {**LIST, "params": {"_meta": ALONE}}
MALFORMED: list[tuple[bytes | Any, dict[str, str], int, int, str]] = [
    (b"{", {}, 400, -32700, "the body is not JSON"),
    (b'{"a": 1, "a": 2}', {}, 400, -32700, "occurs twice"),
    (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "ping"}', {}, 400, -32700, "surrogate"),
    ([LIST], {}, 400, -32600, "send each message as a request of its own"),
    (7, {}, 400, -32600, "not a JSON-RPC request"),
    ({"id": 1, "method": "ping"}, {}, 400, -32600, "not a JSON-RPC request"),
    ({"jsonrpc": "2.0", "id": 1, "result": {}}, {}, 400, -32600, "not a JSON-RPC request"),
    ({**LIST, "id": None}, {}, 400, -32600, "id is neither"),
    ({**LIST, "id": 1.5}, {}, 400, -32600, "id is neither"),
    ({**LIST, "params": []}, {}, 400, -32600, "is not an object"),
    ({**LIST, "params": {"_meta": 7}}, {}, 400, -32600, "is not an object"),
    ({**LIST, "method": "prompts/list"}, {}, 200, -32601, "methods: tools/list, tools/call, initialize, ping"),
    ({**LIST, "method": "tools/call", "params": {"name": ["rows"]}}, {}, 200, -32602, "unknown tool"),
    (LIST, {"MCP-Protocol-Version": "2024-11-05"}, 400, -32022, "supported: 2025-06-18"),
    ({**LIST, "params": {"_meta": {**ALONE, "io.modelcontextprotocol/protocolVersion": 7}}}, {}, 400, -32022, "supported"),
    (LIST_ALONE, {}, 400, -32020, "header mcp-protocol-version is missing"),
    (LIST_ALONE, {**NAMES, "MCP-Protocol-Version": "2025-11-25"}, 400, -32020, "differs from params._meta"),
    (LIST_ALONE, {**NAMES, "Mcp-Method": "ping"}, 400, -32020, "mcp-method differs"),
    (LIST, NAMES, 400, -32602, "lacks 'io.modelcontextprotocol/protocolVersion'"),
    ({**LIST_ALONE, "method": "ping"}, {**NAMES, "Mcp-Method": "ping"}, 404, -32601, "server/discover"),
    (
        {**LIST, "method": "tools/call", "params": {"_meta": ALONE, "name": "rows"}},
        {**NAMES, "Mcp-Method": "tools/call", "Mcp-Name": "=?base64?x?="},
        400,
        -32020,
        "mcp-name differs",
    ),
]  # fmt: skip


def test_invalid_messages_are_refused(asker: Asker) -> None:
    for body, headers, status, code, words in MALFORMED:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = asker.post("/mcp", content=content, headers={"Content-Type": "application/json", **headers})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (status, code), (body, error)
        assert re.search(words, error["message"]), error
    refused = asker.post("/mcp", json=LIST, headers={"MCP-Protocol-Version": "2024-11-05"}).json()["error"]
    assert refused["data"] == {"supported": [*REVISIONS], "requested": "2024-11-05"}


def test_each_revision_is_answered(asker: Asker) -> None:
    for revision in ("2025-06-18", "2025-11-25"):
        result = post(asker, "initialize", {"protocolVersion": revision, "capabilities": {}}).json()["result"]
        assert (result["protocolVersion"], result["capabilities"]) == (revision, {"tools": {}})
        assert post(asker, "ping", headers={"MCP-Protocol-Version": revision}).json() == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert post(asker, "initialize", {"protocolVersion": "2024-11-05"}).json()["result"]["protocolVersion"] == "2025-11-25"
    found = asker.post(
        "/mcp", json={**LIST_ALONE, "method": "server/discover"}, headers={**NAMES, "Mcp-Method": "server/discover"}
    )
    assert found.json()["result"]["supportedVersions"] == [*REVISIONS]
    assert asker.post("/mcp", json=LIST_ALONE, headers=NAMES).json()["result"]["resultType"] == "complete"
    for headers in ({}, NAMES):
        told = asker.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        assert (told.status_code, told.content) == (202, b"")


def test_arguments_that_do_not_fit_are_the_programs_to_mend(asker: Asker) -> None:
    for tool, arguments, words in (
        ("rows", {}, "view: Field required"),
        ("rows", {"view": "per_page", "limt": 1}, "limt: Extra inputs are not permitted"),
        ("rows", {"view": "per_page/why"}, "view: String should match pattern"),
        ("rows", {"view": "per_page", "limit": 10_000}, "limit: Input should be less than or equal to 1000"),
        ("rows", {"view": "per_page", "keys": {"pag": 1}}, "has no key 'pag'"),
        ("rows", [], "arguments: Input should be a valid dictionary"),
        ("why", {"view": "per_page"}, "needs all of its keys; missing: page"),
        ("plan", {"run": "../../status"}, "run: String should match pattern"),
    ):
        failed, document = call(asker, tool, arguments)  # type: ignore[arg-type]
        assert (failed, document["status"]) == (True, 400)
        assert words in document["detail"]


def test_web_pages_of_other_machines_are_refused(asker: Asker) -> None:
    for host, origin, status in (
        ("127.0.0.1:8640", None, 200),
        ("tandem.example.org", None, 200),  # behind a proxy; only pages send an origin
        ("localhost:8640", "http://localhost:8640", 200),
        ("[::1]:8640", "http://[::1]:8640", 200),
        ("localhost:8640", "http://localhost:6274", 403),
        ("localhost:8640", "https://evil.example.com", 403),
        ("evil.example.com:8640", "http://evil.example.com:8640", 403),  # its name points here
        ("127.0.0.1.evil.example.com", "http://127.0.0.1.evil.example.com", 403),
        ("localhost:8640", "null", 403),
    ):
        headers = {"Host": host, **({} if origin is None else {"Origin": origin})}
        assert post(asker, "ping", headers=headers).status_code == status, (host, origin)


def test_what_is_no_message_gets_a_problem(asker: Asker) -> None:
    content = json.dumps(LIST).encode()
    for headers, status in (
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/json", "Accept": "text/event-stream"}, 406),
        ({"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}, 200),
        ({"Content-Type": "application/json", "Authorization": "Bearer tandem_guessed"}, 401),
    ):
        assert asker.post("/mcp", content=content, headers=headers).status_code == status
    for method in ("GET", "DELETE"):
        refused = asker.runner.run(asker.client.request(method, "/mcp"))
        assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_the_page_on_tools(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    definitions = DEFINITIONS.replace("SOURCES =", f"{SALES}\nSOURCES =").replace("VIEWS = (", "VIEWS = (sales, ")
    world = World(tmp_path, definitions=definitions)
    world.append(0, hit("oslo", 3))
    world.trigger()
    files = {one.name: one for one in steps("mcp.md") if isinstance(one, File)}
    create, curl = (one.line for one in steps("mcp.md") if isinstance(one, Command))
    assert json.loads(files["mcp.json"].text)["mcpServers"]["shop"]["url"].endswith("/mcp")
    assert main(create.removeprefix("./tandem ").replace("my_shop", str(world.folder)).split()) == 0
    secret = re.search(r"tandem_[\w-]+", capsys.readouterr().out)
    assert secret is not None
    text = (DOCS / "mcp.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    served = Served(world)
    served.now = datetime.now(UTC)
    with serving(served) as address:
        told = json.loads(asked_as_curl(curl.replace("http://127.0.0.1:8640", address), secret[0]))
        assert "sales" in told["result"]["content"][0]["text"]
        values: dict[str, Any] = {"secret": secret[0]}
        exec(code.replace("http://127.0.0.1:8640", address), values)
        assert json.loads(text_of(values["answer"]))["rows"][0]["city"] == "OSLO"
    rows = re.findall(r"^\| `(\w+)` \|.*\| `(\w+)` \|$", text, re.MULTILINE)
    assert dict(rows) == {name: tool.needs for name, tool in TOOLS.items()}
