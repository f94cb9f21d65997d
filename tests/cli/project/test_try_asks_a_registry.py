"""`tandem try` fetches the schemas that a file's records name, and says so where it cannot; `check` needs no registry."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tests.schema_server import SchemaServer, schema_server

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count, json

class Line(Event):
    at: datetime

lines = Source(topic="lines", event=Line, event_time="at", decoder=json(registry="{registry}"))
hits = View(source=lines, measures={{"n": count()}})
SOURCES = (lines,)
VIEWS = (hits,)
"""


@pytest.fixture
def server() -> Iterator[SchemaServer]:
    with schema_server() as found:
        found.add(7, {"type": "object"}, kind="JSON")
        yield found


def test_a_file_of_framed_records_is_counted(tmp_path: Path, server: SchemaServer, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS.format(registry=server.address))
    value = b'{"at":"2026-11-01T00:00:00Z"}\n'
    (tmp_path / "lines").write_bytes((b"\0\0\0\0\x07" + value) * 3 + value)
    assert main(["check", "--project", str(tmp_path)]) == 0
    assert server.asked == []
    capsys.readouterr()
    asked = ["try", "hits", str(tmp_path / "lines"), "--project", str(tmp_path), "--json"]
    assert main(asked) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["decoded"], document["quarantined"], server.asked) == (3, {"format": 1}, ["/schemas/ids/7"])
    server.down = 503
    assert main(asked) == 1
    printed = capsys.readouterr()
    assert "answered 503 for /schemas/ids/7" in printed.out + printed.err
