"""Runs are reported by the specification; whatever accepts the events, or does not, no run fails or waits long for it."""

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import fastjsonschema
import pytest

from tandem.infra.folders import ROOT
from tandem.infra.lineage import data_set
from tandem.infra.lineage.data_set import DataSets, DerivedColumns
from tandem.infra.lineage.runs import reporting
from tandem.infra.settings import LineageSettings, Settings
from tandem.views.project import project
from tandem.views.project.column_lineage import lineage
from tandem.views.source.event import event_schema
from tandem.views.source.offset_ranges import Ranges

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)
VALID = fastjsonschema.compile(json.loads((Path(__file__).parent / "openlineage.json").read_text("utf-8")))
WEB = project.load(ROOT / "examples" / "web")


def sets() -> DataSets:
    view = WEB.views["page_traffic"]
    schema = event_schema(view.source.event)
    read = data_set.topic("one:9092, two:9092", "requests", schema, Ranges.of({("T", 0): (3, 8)}))
    table = data_set.table("/state/views/page_traffic/f", schema, 7)
    return DataSets((read,), (table, data_set.view("shop", "page_traffic", DerivedColumns(read, lineage(view)), 4)))


def told(settings: Settings, *, fails: BaseException | None = None, look=sets) -> list[str]:
    """Tell one run; what was warned of."""
    warned: list[str] = []
    with reporting(settings, now=lambda: NOON, warn=warned.append) as reporter:
        run = reporter.run("recompute.requests", "BATCH", look, release=2)
        if fails is None:
            with run:
                pass
        else:
            with pytest.raises(type(fails)) as raised, run:
                raise fails
            assert raised.value is fails
    return warned


def written(state: Path) -> list[dict[str, Any]]:
    events = [json.loads(line) for line in (state / "lineage.jsonl").read_text("utf-8").splitlines()]
    for event in events:
        VALID(event)
    return events


def to_file(state: Path) -> Settings:
    return Settings(state=str(state), lineage=LineageSettings(file="lineage.jsonl", namespace="shop", token="t0ken"))


def test_a_run_is_reported_from_start_to_end(tmp_path: Path) -> None:
    assert told(to_file(tmp_path)) == []
    start, complete = written(tmp_path)
    assert (start["eventType"], complete["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == complete["run"]["runId"]
    assert complete["job"]["namespace"] == "shop"
    assert (complete["job"]["name"], complete["eventTime"]) == ("recompute.requests", "2026-11-01T12:00:00.000+00:00")
    (topic,), (table, view) = complete["inputs"], complete["outputs"]
    assert (topic["namespace"], topic["name"]) == ("kafka://one:9092", "requests")
    assert topic["facets"]["tandem_positions"]["ranges"] == {"T": {"0": [[3, 8]]}}
    assert {"name": "bytes", "type": "int64"} in topic["facets"]["schema"]["fields"]
    assert (table["namespace"], table["name"]) == ("file", "/state/views/page_traffic/f")
    assert table["facets"]["version"]["datasetVersion"] == "7"
    assert (view["namespace"], view["name"], view["facets"]["version"]["datasetVersion"]) == ("shop", "page_traffic", "4")
    made = view["facets"]["columnLineage"]["fields"]
    assert [(one["name"], one["field"]) for one in made["page"]["inputFields"]] == [("requests", "path")]
    assert made["bytes"]["inputFields"][0]["transformations"] == [
        {"type": "DIRECT", "subtype": "AGGREGATION", "description": 'total("bytes")', "masking": False}
    ]
    assert {field["name"] for field in view["facets"]["schema"]["fields"]} == set(made)


def test_a_failed_run_is_reported_without_a_secret(tmp_path: Path) -> None:
    told(to_file(tmp_path), fails=OSError("t0ken was refused"))
    assert [event["eventType"] for event in written(tmp_path)] == ["START", "FAIL"]
    assert written(tmp_path)[1]["run"]["facets"]["errorMessage"]["message"] == "******** was refused"


def test_data_sets_that_cannot_be_read_are_logged_and_fail_nothing(tmp_path: Path) -> None:
    def look() -> DataSets:
        raise OSError("torn")

    warned = told(to_file(tmp_path), look=look)
    assert warned == ["a lineage event of recompute.requests was sent without data sets: torn"] * 2
    assert [event["inputs"] for event in written(tmp_path)] == [[], []]


def test_nothing_is_reported_by_default(tmp_path: Path) -> None:
    def look() -> DataSets:
        raise AssertionError

    assert told(Settings(state=str(tmp_path)), look=look) == []
    assert list(tmp_path.iterdir()) == []


class _Takes(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, self.headers["Authorization"], json.loads(body)))  # type: ignore[attr-defined]
        self.send_response(201 if len(self.server.taken) != 2 else 503)  # type: ignore[attr-defined]
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def server() -> Iterator[tuple[str, list[Any]]]:
    with HTTPServer(("127.0.0.1", 0), _Takes) as running:
        running.taken = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{running.server_port}", running.taken  # type: ignore[attr-defined]
        finally:
            running.shutdown()
            thread.join()


def test_events_are_sent_in_order_and_refused_ones_are_logged(tmp_path: Path) -> None:
    warned: list[str] = []
    with server() as (url, taken):
        settings = Settings(state=str(tmp_path), lineage=LineageSettings(url=url, token="t0ken"))
        with reporting(settings, now=lambda: NOON, warn=warned.append) as reporter:
            for _ in range(2):
                with reporter.run("archive.requests", "BATCH", sets, release=1):
                    pass
    assert {(path, shown) for path, shown, _ in taken} == {("/api/v1/lineage", "Bearer t0ken")}
    assert [event["eventType"] for _, _, event in taken] == ["START", "COMPLETE", "START", "COMPLETE"]
    assert "503" in warned[0]
    assert warned[1:] == [f"{url} accepts lineage events again"]


def test_an_absent_or_silent_server_delays_a_run_only_up_to_the_limit(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = silent.getsockname()[1]
        settings = Settings(state=str(tmp_path), lineage=LineageSettings(url=f"http://127.0.0.1:{port}", timeout_s=1))
        began = time.monotonic()
        warned = told(settings)
        assert time.monotonic() - began < 10
        assert any("lineage events" in line for line in warned)
    warned = told(settings)
    assert len(warned) == 1
    assert f"http://127.0.0.1:{port} does not accept lineage events" in warned[0]
