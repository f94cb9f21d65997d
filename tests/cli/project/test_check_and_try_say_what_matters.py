"""`check` prints the settings that someone chose; `try` finds the only view, and prints its windows in their zone."""

import json
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.infra.settings import keys

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, calendar, count, csv

class Line(Event):
    at: datetime

lines = Source(topic="lines", event=Line, event_time="at", decoder=csv(columns=('at',)))
by_day = View(source=lines, window=calendar("day", zone="Europe/Oslo"), measures={"n": count()})
SOURCES = (lines,)
VIEWS = (by_day,)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tandem.toml").write_text("kafka.partitions = 3\n")
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    (tmp_path / "lines.csv").write_text("2026-07-01T22:30:00Z\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main([*arguments]) == 0
    return capsys.readouterr().out


def test_check_prints_the_settings_that_differ_from_their_defaults(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = printed(capsys, "check").partition("\nsettings\n")[2].splitlines()
    assert settings[:2] == [f"  state = '{project / '.tandem'}'", "  kafka.partitions = 3"]
    assert settings[2].startswith(f"  {len([*keys()]) - 2} more have the default")
    assert len(settings) == 3
    assert json.loads(printed(capsys, "check", "--json"))["settings"]["kafka"]["retention_hours"] == 0


def test_the_only_view_needs_no_name(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, "try", "lines.csv") == printed(capsys, "try", "by_day", "lines.csv")
    assert main(["try", "by_day"]) == 1
    assert "view 'by_day' is tried with a file" in capsys.readouterr().err
    with (project / "definitions.py").open("a") as file:
        file.write("others = View(source=lines, measures={'n': count()})\nVIEWS = (by_day, others)\n")
    assert main(["try", "lines.csv"]) == 1
    assert "give the name of a view before 'lines.csv'; views: others, by_day" in capsys.readouterr().err


@pytest.mark.usefixtures("project")
def test_windows_of_a_zone_are_printed_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert "2026-07-02T00:00:00+02:00" in printed(capsys, "try", "lines.csv")
    assert "2026-07-01T22:00:00Z" in printed(capsys, "try", "lines.csv", "--utc")
    (row,) = json.loads(printed(capsys, "try", "lines.csv", "--json"))["rows"]
    assert row["window_start"] == "2026-07-01T22:00:00Z"
    assert row["_local"]["window_start"] == "2026-07-02T00:00:00+02:00"
