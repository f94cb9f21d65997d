"""`tandem quarantine` sums up first and lists the rest page by page, each record of each source once."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tandem.cli.__main__ import main
from tandem.infra import settings
from tandem.ledger.delta.addresses import Tables
from tandem.views.source.source import REJECTS_SCHEMA

START = datetime(2026, 11, 1, tzinfo=UTC)
DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count

class Line(Event):
    at: datetime

one = Source(topic="lines", event=Line, event_time="at")
two = Source(topic="lines", event=Line, event_time="at")
ones = View(source=one, measures={"n": count()})
twos = View(source=two, measures={"n": count()})
SOURCES = (one, two)
VIEWS = (ones, twos)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two sources that quarantine the same 30 records of a topic, two of them at each instant."""
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    tables = Tables.of(settings.load(tmp_path, {}))
    rejects = [
        {
            "topic_id": "T",
            "partition": 0,
            "offset": number,
            "timestamp": START + timedelta(seconds=number // 2),
            "reason": "utf8" if number % 10 == 0 else "json",
            "detail": "why",
            "first_bytes": b"x",
        }
        for number in range(30)
    ]
    for source in ("one", "two"):
        write_deltalake(tables.quarantine(source, ""), pa.Table.from_pylist(rejects, REJECTS_SCHEMA))
    return tmp_path


def quarantine(project: Path, capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["quarantine", "--project", str(project), "--json", *options]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_summary_has_each_source_and_reason(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = quarantine(project, capsys)
    newest = {"json": "2026-11-01T00:00:14Z", "utf8": "2026-11-01T00:00:10Z"}
    assert found["summary"] == [
        {"source": source, "reason": reason, "records": number, "newest": newest[reason]}
        for source in ("one", "two")
        for reason, number in (("json", 27), ("utf8", 3))
    ]
    assert found["total"] == 60
    assert quarantine(project, capsys, "--source", "two", "--reason", "utf8")["total"] == 3
    assert main(["quarantine", "--project", str(project)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == [
        "one: 27 records json, newest 2026-11-01T00:00:14Z",
        "one: 3 records utf8, newest 2026-11-01T00:00:10Z",
    ]
    assert lines[-2:] == ["20 of 60 rows", f"older records: --after {found['next']}"]


@pytest.mark.parametrize("size", [1, 7, 20, 59, 60, 61])
def test_all_pages_hold_each_record_of_each_source_once(project: Path, capsys: pytest.CaptureFixture[str], size: int) -> None:
    places: list[tuple[str, int]] = []
    cursor: str | None = None
    while True:
        options = ["--limit", str(size), *(["--after", cursor] if cursor else [])]
        found = quarantine(project, capsys, *options)
        assert 0 < len(found["rejects"]) <= size + 1
        places += [(row["source"], row["offset"]) for row in found["rejects"]]
        cursor = found["next"]
        if cursor is None:
            break
    assert sorted(places) == sorted((source, number) for source in ("one", "two") for number in range(30))
    instants = [number // 2 for _, number in places]
    assert instants == sorted(instants, reverse=True)


def test_an_invalid_cursor_is_one_sentence(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine", "--project", str(project), "--after", "yesterday"]) == 1
    assert capsys.readouterr().err == "tandem: invalid cursor 'yesterday'; use `next` from the previous page\n"
