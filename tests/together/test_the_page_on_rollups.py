"""docs/rollups.md: its project is what its commands are run on, and they show what the page shows."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.documented import File, steps
from tests.serving.world import World

REQUESTS = [
    ("2026-10-31T12:10:00Z", "NO", "/tea", 200),
    ("2026-10-31T22:50:00Z", "NO", "/mug", 300),
    ("2026-10-31T23:10:00Z", "NO", "/tea", 250),
    ("2026-11-01T08:00:00Z", "IT", "/tea", 150),
]


def request(at: str, country: str, page: str, size: int) -> bytes:
    return json.dumps({"at": at, "country": country, "page": page, "bytes": size}).encode()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's project with four requests, and one beside it whose days are in Kolkata."""
    (definitions,) = (step.text for step in steps("rollups.md") if isinstance(step, File))
    world = World(tmp_path, definitions=definitions, appended=datetime.fromisoformat("2026-11-02T00:00:00Z"))
    world.append(0, *(request(*each) for each in REQUESTS))
    world.trigger()
    (tmp_path / "kolkata").mkdir()
    (tmp_path / "kolkata" / "tandem.toml").touch()
    (tmp_path / "kolkata" / "definitions.py").write_text(definitions.replace("Europe/Berlin", "Asia/Kolkata"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_each_command_shows_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    for step in steps("rollups.md"):
        if not isinstance(step, File):
            step.show(capsys, code=None)
