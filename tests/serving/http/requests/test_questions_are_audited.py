"""Each question is one line of the audit log: the caller, the views, the number of rows, the outcome, and no value."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.logs import telling
from tandem.infra.settings import LogsSettings, Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.access import tokens
from tandem.serving.access.sealed_text import Seal
from tandem.serving.http.requests.gate import gated
from tests.serving.http.routes.test_changes_are_streamed import stream
from tests.serving.http.served import Asker, Served, serving
from tests.serving.world import NOON, World, hit

SECRET = "hush-4711"
FIELDS = {"event", "who", "client", "route", "views", "question", "rows", "outcome", "status", "ms"}
ONE = {"key.page": SECRET, "window": "2026-11-01T12:00"}
ROUTES: dict[str, tuple[str, str, dict[str, Any], int | None]] = {
    "/views/{view}/rows": ("GET", "/views/per_page/rows", {"params": {"key.page": SECRET}}, 1),
    "/views/{view}/row": ("GET", "/views/per_page/row", {"params": ONE}, 1),
    "/views/{view}/why": ("GET", "/views/per_page/why", {"params": ONE}, None),
    "/views/{view}/why-changed": ("GET", "/views/per_page/why-changed", {"params": {"key.page": SECRET, "before": "1"}}, None),
    "/views/{view}/lookup": ("POST", "/views/per_page/lookup", {"json": {"keys": [{"page": SECRET}, {"page": "/a"}]}}, 2),
    "/sql": ("POST", "/sql", {"json": {"statement": f"SELECT n, '{SECRET}' AS x, (SELECT n FROM ever) AS m FROM per_page"}}, 2),
    "/views/{view}/changes": ("GET", "/views/per_page/changes", {"params": {"since": SECRET}}, None),
}


@pytest.fixture
def served(tmp_path: Path) -> Served:
    world = World(tmp_path)
    world.append(0, hit(SECRET, 3), hit("/a", 5))
    world.trigger()
    return Served(world, {"wait_s": 1})


@pytest.fixture
def asker(served: Served) -> Iterator[Asker]:
    with served.asker(served.token("desk", may=("read", "sql"))) as asker:
        yield asker


def ask(asker: Asker, method: str, path: str, **how: Any) -> int:
    return int(asker.runner.run(asker.client.request(method, path, **how)).status_code)


def test_each_question_leaves_one_line_without_a_value(served: Served, asker: Asker) -> None:
    assert {route.path_format for route in gated(served.app) if route.asks} == set(ROUTES)
    for route, (method, path, how, rows) in ROUTES.items():
        # No broker runs here, so records that are not archived cannot be read.
        fails = route.endswith(("/why", "/why-changed"))
        served.questions.clear()
        status = ask(asker, method, path, **how)
        (line,) = served.questions
        assert set(line) == FIELDS
        assert {name: line[name] for name in FIELDS - {"client", "question", "ms"}} == {
            "event": "question",
            "who": "token:desk",
            "route": route,
            "views": ["ever", "per_page"] if route == "/sql" else ["per_page"],
            "rows": rows,
            "outcome": "failed" if fails else "refused" if rows is None else "answered",
            "status": status,
        }
        assert status == (503 if fails else 400 if rows is None else 200)
        assert SECRET not in str(line)
        assert "tandem_" not in str(line)


def test_equal_questions_have_equal_digests_and_others_differ(served: Served, asker: Asker) -> None:
    for method, path, how, _ in ROUTES.values():
        ask(asker, method, path, **how)
        ask(asker, method, path, **how)
    digests = [line["question"] for line in served.questions]
    assert digests[::2] == digests[1::2]
    assert len(set(digests)) == len(ROUTES)
    served.questions.clear()
    for page in ("/a", "/b"):
        ask(asker, "GET", "/views/per_page/rows", params={"key.page": page})
        ask(asker, "GET", "/views/per_page/rows", params={"key.page": page}, headers={"Accept": "text/csv"})
    first, again, other, _ = (line["question"] for line in served.questions)
    assert first == again != other


def test_refusals_and_failures_are_distinguished_and_other_routes_leave_no_line(served: Served, asker: Asker) -> None:
    for path, params in (
        ("/views/per_page/rows", {"order": "nothing"}),
        ("/views/nothing/rows", {}),
        ("/views/per_page/rows", {"max_age": "1s"}),
        ("/views", {}),
        ("/status", {}),
        ("/views/per_page/rows", {"misspelt": "1"}),
    ):
        ask(asker, "GET", path, params=params)
    ask(asker, "GET", "/views/per_page/rows", headers={"Authorization": "Bearer tandem_wrong"})
    told = [(line["views"], line["outcome"], line["status"], line["rows"]) for line in served.questions]
    assert told == [
        (["per_page"], "refused", 400, None),
        (["nothing"], "refused", 404, None),
        (["per_page"], "failed", 504, None),
    ]


def test_a_stream_counts_the_rows_that_it_sent(served: Served) -> None:
    secret = served.token("reader")
    with serving(served) as address, stream(address, secret) as found:
        for size in (7, 8):
            served.world.append(1, hit("/new", size))
            served.world.trigger()
            next(found)
        tokens.revoke(served.world.tables, "reader", now=NOON)
        served.seconds += tokens.FRESH_S
        served.world.append(1, hit("/new", 9))
        served.world.trigger()
        assert [event["event"] for event in found][-1] == "over"
    (line,) = served.questions
    assert (line["rows"] >= 2, line["outcome"], line["route"]) == (True, "answered", "/views/{view}/changes")


def test_digests_are_keyed_by_the_project(tmp_path: Path) -> None:
    one, other = (Seal(Tables(str(tmp_path / name)), os.urandom) for name in ("one", "other"))
    assert one.digest(b"x") == Seal(Tables(str(tmp_path / "one")), bytes).digest(b"x")
    assert one.digest(b"x") != other.digest(b"x") != other.digest(b"y")


def test_the_audit_log_is_bounded(tmp_path: Path) -> None:
    settings = Settings(state=str(tmp_path), logs=LogsSettings(file_mb=1, kept_files=2))
    with telling.recorded(settings, "audit", now=lambda: NOON) as log:
        for _ in range(25_000):
            log.info("question", who="token:desk", client="127.0.0.1", views=["per_page"], question="0" * 32, rows=1, ms=0.1)
    files = sorted((tmp_path / "logs").glob("audit.log*"))
    assert [file.name for file in files] == ["audit.log", "audit.log.1", "audit.log.2"]
    assert all(file.stat().st_size <= 1 << 20 for file in files)
