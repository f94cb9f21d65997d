"""docs/sequences.md: its project is what its commands are run on, and they show what the page shows."""

from datetime import datetime
from pathlib import Path

import pytest

from tests.documented import File, steps
from tests.serving.world import World


def test_commands_on_sequences_show_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = list(steps("sequences.md"))
    definitions, events, sql = (step for step in page if isinstance(step, File))
    world = World(tmp_path, definitions=definitions.text, appended=datetime.fromisoformat("2026-11-02T00:00:00Z"))
    events.write(tmp_path)
    lines = events.text.encode().splitlines()
    world.append(0, *lines[:4])
    world.trigger()
    world.recompute(world.writer.end)
    world.append(0, lines[4])
    world.trigger()
    monkeypatch.chdir(tmp_path)
    for step in page:
        if step is sql:
            (tmp_path / "shop").mkdir()
            (tmp_path / "shop" / "tandem.toml").touch()
            sql.write(tmp_path / "shop")
            monkeypatch.chdir(tmp_path / "shop")
        elif not isinstance(step, File):
            step.show(capsys, code=None)
