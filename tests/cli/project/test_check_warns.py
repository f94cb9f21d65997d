"""`check` warns about valid views that may not do what was meant."""

import json
from pathlib import Path

import pytest

from tandem.cli.__main__ import main

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count
from tandem.views.windows import sliding_count_window


class Reading(Event):
    at: datetime
    sensor: str


readings = Source(topic="readings", event=Reading, event_time="at"KEY)
last = View(readings, keys={"sensor": "sensor"}, window=sliding_count_window(3), measures={"n": count()})
SOURCES = (readings,)
VIEWS = (last,)
"""


def test_a_window_in_log_order_needs_its_keys_in_one_partition(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    for key, warned in (("", True), (', key="sensor"', False)):
        (tmp_path / "definitions.py").write_text(DEFINITIONS.replace("KEY", key))
        assert main(["check", "--project", str(tmp_path), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        warnings = found["views"]["last"]["warnings"]
        assert [warning[:58] for warning in warnings] == ["its windows follow the order of the log within a partition"] * warned
        assert found["sources"]["readings"]["key"] == ("sensor" if key else None)
        assert main(["check", "--project", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert ("  warning: its windows" in shown) == warned
        assert ("  key of its records: sensor" in shown) == bool(key)


@pytest.mark.parametrize(
    ("parameters", "spans", "shown"),
    [
        ("", None, "every record counts"),
        (', identity=("sensor",)', "event_time", "identity sensor at equal event times"),
        (', identity=("sensor",), identity_spans="any_time"', "any_time", "identity sensor at any event time"),
    ],
)
def test_check_prints_which_events_are_duplicates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], parameters: str, spans: str | None, shown: str
) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS.replace("KEY", parameters))
    assert main(["check", "--project", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sources"]["readings"]["identity_spans"] == spans
    assert main(["check", "--project", str(tmp_path)]) == 0
    assert shown in capsys.readouterr().out
