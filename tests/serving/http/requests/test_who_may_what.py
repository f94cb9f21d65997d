"""Every route checks its caller: each of the application's own routes, for every kind of caller."""

import threading
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from fastapi import APIRouter, FastAPI

from tandem.serving.access import tokens
from tandem.serving.access.oidc import Oidc, provider
from tandem.serving.access.rights import VERBS
from tandem.serving.http.commands import Command
from tandem.serving.http.requests.gate import Gated, gated
from tandem.views.errors import TandemError
from tests.serving.access.provider import SETTINGS, Issuing
from tests.serving.http.served import Served
from tests.serving.world import NOON, SOURCE, World, hit

VIEW = "per_page"
COMMANDS = get_args(Command)
NO_RUN = "00000000-0000-4000-8000-000000000000"
KEYS = {"key.page": "/a", "window": "2026-11-01T12:00"}
# What a request to each route needs to be answered, beside who asks; a new route has to be added.
REQUESTS: dict[tuple[str, str], dict[str, Any]] = {
    ("GET", "/healthz"): {},
    ("GET", "/readyz"): {},
    ("GET", "/metrics"): {},
    ("GET", "/status"): {},
    ("GET", "/freshness"): {},
    ("GET", "/alerts"): {},
    ("GET", "/me"): {},
    ("GET", "/"): {},
    ("GET", "/page/{file}"): {},
    ("GET", "/openapi.json"): {},
    ("GET", "/views"): {},
    ("GET", "/views/{view}"): {},
    ("GET", "/views/{view}/rows"): {},
    ("GET", "/views/{view}/row"): {"params": KEYS},
    ("GET", "/views/{view}/why"): {"params": KEYS},
    ("GET", "/views/{view}/why-changed"): {"params": {"before": "1"}},
    # Which would go on for ever: who is let through is told that this is no token.
    ("GET", "/views/{view}/changes"): {"params": {"since": "x"}},
    ("POST", "/views/{view}/lookup"): {"json": {"keys": [{"page": "/a"}, {"page": "/b"}]}},
    ("POST", "/sql"): {"json": {"statement": "SELECT count(*) AS n FROM inverse"}},
    ("POST", "/mcp"): {"json": {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}},
    ("GET", "/history"): {},
    ("GET", "/audits"): {},
    ("GET", "/quarantine/{source}"): {},
    ("POST", "/quarantine/{source}/retry"): {"json": {"limit": 0}},
    ("GET", "/runs"): {},
    # What is let through is told that this is no option, so that nothing runs.
    **{("POST", f"/runs/{command}"): {"json": {"no": "option"}} for command in COMMANDS},
    ("GET", "/runs/{id}"): {},
    ("DELETE", "/runs/{id}"): {},
    ("GET", "/sources"): {},
    ("GET", "/sources/{source}"): {},
    # Who is let through is told that this is no event: nothing is written.
    ("POST", "/sources/{source}/events"): {"json": {"no": "event"}},
}
# Whom each kind of route answers, and with what the others are refused.
UNREADING = ("admin only", "narrow admin", "bound admin", "bound analyst", "sender", "narrow sender", "misled sender")
NOBODY = ("nobody", "basic", "no token", "malformed", "guessed", "expired", "revoked", "wrong audience", "no right")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    world = World(tmp_path_factory.mktemp("world"))
    world.append(0, hit("/a", 3), hit("/b", 5), hit("/b", 7), hit(None, 9))
    world.trigger()
    return Served(world, {"failed_logins": 10**6})


@pytest.fixture(scope="module")
def authorizations(served: Served) -> dict[str, str | None]:
    issuing = Issuing()
    known = provider(SETTINGS)
    assert known is not None
    object.__setattr__(served.server.identities, "oidc", Oidc.of(known, lambda: 0.0, fetch=issuing.fetch))
    revoked = served.token("revoked", may=VERBS)
    tokens.revoke(served.world.tables, "revoked", now=NOON)
    shown = {
        "malformed": "tandem_",
        "guessed": "tandem_" + "A" * 43,
        "expired": served.token("expired", may=VERBS, days=-1),
        "revoked": revoked,
        "wrong audience": issuing.signed(aud="another", groups=["boss"]),
        "no right": issuing.signed(groups=["visitors"]),
        "other view": served.token("other view", views=["inverse"]),
        "bound": served.token("bound", rows=["page=/a"]),
        "reader": served.token("reader"),
        "admin": served.token("admin", may=("admin", "read")),
        "admin only": served.token("admin only", may=("admin", "ingest")),
        "narrow admin": served.token("narrow admin", may=("admin",), views=["inverse"]),
        "bound admin": served.token("bound admin", may=("admin",), rows=["page=/a"]),
        "sender": served.token("sender", may=("ingest",)),
        "narrow sender": served.token("narrow sender", may=("ingest",), views=["inverse"]),
        "misled sender": served.token("misled sender", may=("ingest",), views=["elsewhere"]),
        "analyst": served.token("analyst", may=("read", "sql")),
        "bound analyst": served.token("bound analyst", may=("sql",), rows=["page=/a"]),
        "staff": issuing.signed(groups=["staff"]),
    }
    return {
        "nobody": None,
        "basic": "Basic YTpi",
        "no token": "Bearer",
        **{who: f"Bearer {secret}" for who, secret in shown.items()},
    }


def expected(served: Served, method: str, path: str, who: str) -> int:
    needs = next(route.needs for route in gated(served.app) if route.path_format == path and method in (route.methods or ()))
    if needs == "open":
        return 200
    if who in NOBODY:
        return 401
    if needs == "sql":
        return 200 if who == "analyst" else 403
    if needs == "admin":
        refused = 404 if path == "/runs/{id}" else 400 if method == "POST" else 200
        return refused if who in ("admin", "admin only") else 403
    if needs == "ingest":
        return {"sender": 422, "narrow sender": 422, "admin only": 422, "misled sender": 404}.get(who, 403)
    if needs == "read" and who in UNREADING:
        return 403
    if path in ("/alerts", "/audits", "/metrics") and who in ("bound", "staff"):
        return 403
    if "{source}" in path and who in ("misled sender", "narrow admin", "bound admin"):
        return 404
    if "{view}" in path and who == "other view":
        return 404
    if path.endswith(("/why", "/why-changed")):
        return 503  # no broker runs here, so records that are not archived cannot be read
    return 400 if path.endswith("/changes") else 200


async def asked(
    client: httpx.AsyncClient, method: str, path: str, authorization: str | None, view: str = VIEW, *, source: str = SOURCE
) -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    place = path.replace("{view}", view).replace("{source}", source).replace("{id}", NO_RUN).replace("{file}", "main.js")
    return await client.request(method, place, headers=headers, **REQUESTS[method, path])


def test_every_route_has_a_rule_and_a_request(served: Served) -> None:
    found = {(method, route.path_format) for route in gated(served.app) for method in route.methods or ()}
    assert found == set(REQUESTS)
    assert {route.path for route in gated(served.app) if route.needs == "open"} == {
        "/healthz",
        "/readyz",
        "/",
        "/page/{file:path}",
    }


@pytest.mark.anyio
async def test_every_caller_gets_exactly_the_permitted_routes(served: Served, authorizations: dict[str, str | None]) -> None:
    wrong = []
    async with served.server.open(), served.another(None) as client:
        for method, path in REQUESTS:
            for who, authorization in authorizations.items():
                answer = await asked(client, method, path, authorization)
                if answer.status_code != expected(served, method, path, who):
                    wrong.append((method, path, who, answer.status_code, answer.text))
                if answer.status_code == 401:
                    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert not wrong


@pytest.mark.anyio
async def test_a_refusal_does_not_reveal_its_reason(served: Served, authorizations: dict[str, str | None]) -> None:
    shown = [who for who in NOBODY if who not in ("nobody", "basic", "no token")]
    async with served.server.open(), served.another(None) as client:
        answers = [await asked(client, "GET", "/views", authorizations[who]) for who in shown]
    assert len({answer.text for answer in answers}) == 1


@pytest.mark.anyio
async def test_a_forbidden_view_looks_absent(served: Served, authorizations: dict[str, str | None]) -> None:
    async with served.server.open(), served.another(None) as client:
        for who in ("other view", "bound"):
            for method, path in REQUESTS:
                if "{view}" in path:
                    forbidden = await asked(client, method, path, authorizations[who], "ever")
                    absent = await asked(client, method, path, authorizations[who], "evil")
                    assert forbidden.status_code == absent.status_code == 404
                    assert forbidden.text.replace("ever", "evil") == absent.text
                    assert dict(forbidden.headers.items()) == dict(absent.headers)
        views = (await asked(client, "GET", "/views", authorizations["other view"])).json()["views"]
        assert [view["name"] for view in views] == ["inverse"]
        status = (await asked(client, "GET", "/status", authorizations["bound"])).json()
        assert list(status["views"]) == ["per_page"]


@pytest.mark.anyio
async def test_a_forbidden_source_looks_absent(served: Served, authorizations: dict[str, str | None]) -> None:
    async with served.server.open(), served.another(None) as client:
        for method, path in (("GET", "/sources/{source}"), ("POST", "/sources/{source}/events")):
            closed = await asked(client, method, path, authorizations["misled sender"])
            absent = await asked(client, method, path, authorizations["misled sender"], source="hots")
            assert closed.status_code == absent.status_code == 404
            assert closed.text.replace("hits", "hots") == absent.text
        for who, told in {
            "sender": (True, []),
            "narrow sender": (True, []),
            "other view": (False, ["inverse"]),
            "bound": (False, ["per_page"]),
            "admin only": (True, []),
        }.items():
            (source,) = (await asked(client, "GET", "/sources", authorizations[who])).json()["sources"]
            assert (source["name"], source["ingest"], source["views"]) == ("hits", *told)
        assert (await asked(client, "GET", "/sources", authorizations["misled sender"])).json() == {"sources": []}


@pytest.mark.anyio
async def test_a_token_restricted_to_rows_sees_only_these(served: Served, authorizations: dict[str, str | None]) -> None:
    for who in ("bound", "staff"):
        headers = {"Authorization": str(authorizations[who])}
        async with served.server.open(), served.another(None) as client:
            client.headers.update(headers)

            async def pages(path: str) -> list[Any]:
                answer = (await client.get(path)).json()
                assert (answer["provenance"]["rejected"], answer["provenance"]["after_final"]) == (None, None)
                return [row["page"] for row in answer["rows"]]

            assert await pages(f"/views/{VIEW}/rows") == ["/a"]
            assert await pages(f"/views/{VIEW}/rows?order=-bytes&layer=speed") == ["/a"]
            assert await pages(f"/views/{VIEW}/rows?key.page=/a") == ["/a"]
            hidden = ("key.page=/b", "null=page", "key.page=/nowhere")
            for route in (
                "rows?",
                "rows?layer=batch&",
                "row?window=2026-11-01T12:00&",
                "row?layer=merged&window=2026-11-01T12:00&",
            ):
                refused = [await client.get(f"/views/{VIEW}/{route}{other}") for other in hidden]
                assert {(answer.status_code, answer.content) for answer in refused} == {(403, refused[0].content)}
                assert "restricted to rows with page=/a" in refused[0].text
            keys = [{"page": "/b"}, {"page": "/a"}, {"page": None}, {"page": "/nowhere"}]
            found = await client.post(f"/views/{VIEW}/lookup", json={"keys": keys})
            assert [row["page"] for row in found.json()["rows"]] == ["/a"]
            assert (found.json()["absent"], found.json()["hidden"]) == ([], [0, 2, 3])
            (absent,) = [await client.post(f"/views/{VIEW}/lookup", json={"keys": [{"page": "/a"}], "from": "2027-01-01"})]
            assert (absent.json()["absent"], absent.json()["hidden"]) == ([0], [])


@pytest.mark.anyio
async def test_a_cursor_of_another_token_grants_nothing(served: Served, authorizations: dict[str, str | None]) -> None:
    async with served.server.open(), served.another(None) as client:
        of_reader = {"Authorization": str(authorizations["reader"])}
        cursor = (await client.get(f"/views/{VIEW}/rows?limit=1", headers=of_reader)).json()["next"]
        assert (await client.get(f"/views/{VIEW}/rows?cursor={cursor}", headers=of_reader)).status_code == 200
        for who, status in (("bound", 400), ("other view", 404), ("revoked", 401), ("admin only", 403)):
            answer = await client.get(f"/views/{VIEW}/rows?cursor={cursor}", headers={"Authorization": str(authorizations[who])})
            assert answer.status_code == status


@pytest.mark.anyio
async def test_a_revoked_token_is_refused_a_moment_later(served: Served) -> None:
    async with served.client(served.token("soon gone")) as client:
        assert (await client.get("/views")).status_code == 200
        tokens.revoke(served.world.tables, "soon gone", now=NOON)
        served.seconds += tokens.FRESH_S
        assert (await client.get("/views")).status_code == 401


@pytest.mark.anyio
async def test_a_check_of_slow_tables_runs_beside_the_event_loop(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens.Tokens, "waits", lambda *_: True)
    names, whose = [], tokens.Tokens.whose

    def told(*given: Any, **named: Any) -> Any:
        names.append(threading.current_thread() is threading.main_thread())
        return whose(*given, **named)

    monkeypatch.setattr(tokens.Tokens, "whose", told)
    async with served.client(served.token("on a bucket")) as client:
        assert (await client.get("/views")).status_code == 200
    assert names == [False]
    async with served.client("tandem_" + "A" * 43) as client:
        assert (await client.get("/views")).status_code == 401


def files_of_tokens(served: Served) -> set[Path]:
    return {*Path(served.world.tables.control("tokens")).glob("*.parquet")}


@pytest.mark.anyio
async def test_unreadable_tokens_refuse_everybody(served: Served) -> None:
    async with served.client(served.token("unread")) as client:
        assert (await client.get("/views")).status_code == 200
        known = files_of_tokens(served)
        served.token("another")
        (new,) = files_of_tokens(served) - known
        content = new.read_bytes()
        new.write_bytes(b"torn")
        served.seconds += tokens.FRESH_S
        for _ in range(2):
            answer = await client.get("/views")
            assert answer.status_code == 503
            assert "the tokens cannot be read" in answer.json()["detail"]
        new.write_bytes(content)
        assert (await client.get("/views")).status_code == 200


@pytest.mark.anyio
async def test_the_access_log_names_the_caller_and_no_secret(served: Served) -> None:
    secret = served.token("logged")
    served.lines.clear()
    async with served.client(secret) as client:
        await client.get(f"/views/{VIEW}/rows?key.page=/private")
        await client.get("/views", headers={"Authorization": "Bearer tandem_wrong"})
    (line, refused) = (line for line in served.lines if line["event"] == "request")
    assert {name: line[name] for name in ("who", "method", "path", "status")} == {
        "who": "token:logged",
        "method": "GET",
        "path": f"/views/{VIEW}/rows",
        "status": 200,
    }
    assert (refused["who"], refused["status"]) == (None, 401)
    assert not any(text in str(served.lines) for text in (secret, "private", "tandem_wrong"))


def test_a_route_without_a_rule_cannot_be_created() -> None:
    router = APIRouter(route_class=Gated)
    with pytest.raises(TandemError, match="route /new has x-verb None; expected one of read"):
        router.get("/new")(lambda: None)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None)
    app.get("/new")(lambda: None)
    with pytest.raises(TandemError, match="/new is not behind the gate"):
        gated(app)
