"""`check` shows the units and texts of definitions, and nothing for those without."""

import json
from pathlib import Path

import pytest

from tandem.cli.__main__ import main

DEFINITIONS = """
from datetime import datetime
from typing import Annotated

import msgspec
from tandem import Event, Source, Unit, View, count, mean


class Request(Event):
    at: datetime
    path: Annotated[str, msgspec.Meta(description="without the query")]
    ms: Annotated[int, Unit("ms")]


requests = Source(topic="requests", event=Request, event_time="at")
traffic = View(
    requests,
    keys={"path": "path"},
    measures={"hits": count(), "wait": mean("ms")},
    doc="How long readers wait.",
    docs={"hits": "answered or not"},
    units={"wait": "ms"},
)
SOURCES = (requests,)
VIEWS = (traffic,)
"""


def test_units_and_texts_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    assert main(["check", "--project", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["sources"]["requests"]["units"] == {"ms": "ms"}
    assert found["sources"]["requests"]["docs"] == {"path": "without the query"}
    view = found["views"]["traffic"]
    assert view["doc"] == "How long readers wait."
    assert view["keys"]["path"] == {"expression": "path", "type": "text", "doc": "without the query"}
    assert {name: (one.get("unit"), one.get("doc")) for name, one in view["measures"].items()} == {
        "hits": (None, "answered or not"),
        "wait": ("ms", None),
    }
    assert main(["check", "--project", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for line in (
        "  path: string: without the query",
        "  ms: int64 [ms]",
        "  How long readers wait.",
        "  hits: integer, exact = count(): answered or not",
        '  wait: float, exact = mean("ms") [ms]',
    ):
        assert f"{line}\n" in shown
