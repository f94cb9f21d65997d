"""`tandem try` shows equal rejects once, and fails if nothing of a file can be decoded."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count, csv

class Line(Event):
    at: datetime
    n: int

lines = Source(topic="lines", event=Line, event_time="at", decoder=csv(header=True))
hits = View(source=lines, measures={"n": count()})
SOURCES = (lines,)
VIEWS = (hits,)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    return tmp_path


def tried(project: Path, capsys: pytest.CaptureFixture[str], data: bytes) -> tuple[int, dict[str, Any], list[str]]:
    (project / "lines.csv").write_bytes(data)
    arguments = ["try", "hits", str(project / "lines.csv"), "--project", str(project)]
    code = main([*arguments, "--json"])
    document = json.loads(capsys.readouterr().out)
    assert main(arguments) == code
    return code, document, capsys.readouterr().out.splitlines()


def test_equal_rejects_are_one_line_with_their_number(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, worse = b"2026-11-01T00:00:00Z,1\n", b"2026-11-01T00:00:00Z,x\n", b"noon\n"
    code, document, lines = tried(project, capsys, b"at,n\n" + good + bad * 30 + worse + bad)
    assert (code, document["decoded"], document["quarantined"]) == (0, 1, {"invalid_value": 31, "format": 1})
    assert [(one["line"], one["reason"], one["count"]) for one in document["rejects"]] == [
        (3, "invalid_value", 31),
        (33, "format", 1),
    ]
    assert document["rejects"][0]["first_bytes"] == "2026-11-01T00:00:00Z,x"
    (line,) = [line for line in lines if "invalid_value" in line]
    assert line == "  line 3: invalid_value: field n: not a number: 'x' (31 times): 2026-11-01T00:00:00Z,x"


def test_a_file_of_which_nothing_decodes_fails(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document, lines = tried(project, capsys, b"when,n\n2026-11-01T00:00:00Z,1\n2026-11-01T00:00:00Z,2\n")
    assert (code, document["decoded"], len(document["rejects"])) == (1, 0, 1)
    assert lines[-1] == "nothing of the file can be decoded"
    assert tried(project, capsys, b"")[0] == 0


def test_a_folder_is_one_file_whose_rejects_name_theirs(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = project / "days"
    folder.mkdir()
    good, bad = "at,n\n2026-11-01T00:00:00Z,1\n", "2026-11-01T00:00:00Z,x\n"
    for name, text in {"a.csv": good, "b.csv": "", "c.csv": good + bad, "d.csv": good}.items():
        (folder / name).write_text(text)
    arguments = ["try", "hits", str(folder), "--project", str(project)]
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["lines"], document["events"]) == (7, 3)
    (reject,) = document["rejects"]
    assert (reject["file"], reject["line"], reject["first_bytes"]) == (str(folder / "c.csv"), 3, bad.strip())
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "7 lines of 4 files: 3 events, 1 to quarantine" in lines
    assert any(line.startswith(f"  line 3 of {folder}/c.csv: invalid_value: ") for line in lines)
