"""`check` says which operations have other results in Spark or PostgreSQL, and where the project uses them; it does not fail."""

import json
from pathlib import Path

import pytest

from tandem.cli.__main__ import main

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count, derived, session, total


class Reading(Event):
    at: datetime
    sensor: str
    value: int


readings = Source(topic="readings", event=Reading, event_time="at", key="lower(sensor)")
levels = View(
    readings,
    where="log(value) > 2",
    keys={"sensor": "concat(sensor, '-')", "level": "CAST(log(value) AS INTEGER)"},
    window=session(minutes=3),
    measures={"n": count(), "steps": total("value // 10", filter="dayofweek(\\"at\\") = 0"), "half": derived("n / 2")},
)
plain = View(readings, where="value > 2 AND sensor LIKE 'a%'", measures={"sum": total("value + 1")})
SOURCES = (readings,)
VIEWS = (levels, plain)
"""


def test_the_operations_that_differ_are_named_once_with_their_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    assert main(["check", "--project", str(tmp_path), "--json"]) == 0
    hints = json.loads(capsys.readouterr().out)["hints"]
    assert {hint["operation"]: hint["places"] for hint in hints} == {
        "/": ["view levels, half"],
        "//": ["view levels, steps"],
        "CAST AS INTEGER": ["view levels, key level"],
        "concat": ["view levels, key sensor"],
        "dayofweek": ["view levels, steps"],
        "log": ["view levels, where", "view levels, key level"],
        "lower": ["source readings, key"],
    }
    assert main(["check", "--project", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert "hints: these operations have other results in Spark or PostgreSQL" in text
    assert (
        "`log(100)` is 2.0 here, 4.605170185988092 in Spark 4.2 and 2 in PostgreSQL 15: it is the logarithm to base 10; `ln` is "
        "the natural one; used in view levels, where; view levels, key level" in text
    )
