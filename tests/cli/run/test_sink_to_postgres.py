"""docs/sink-to-postgres.md does what it shows, on a real server."""

import subprocess
from pathlib import Path

import pytest

from tests.documented import File, steps
from tests.postgres_server import postgres_server, reachable_folder
from tests.serving.world import World, hit


def test_each_command_prints_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (definitions,) = (step.text for step in steps("sink-to-postgres.md") if isinstance(step, File))
    world = World(tmp_path, definitions=definitions)
    world.append(0, hit("/a", 1), hit("/b", 2), hit("/a", 3))
    world.trigger()
    monkeypatch.chdir(world.folder)
    with reachable_folder() as folder, postgres_server(folder / "pg") as server:
        monkeypatch.setenv("MART_DSN", server.dsn)
        monkeypatch.setenv("PATH", str(server.programs), prepend=":")
        for step in steps("sink-to-postgres.md"):
            if isinstance(step, File):
                continue
            if step.line.startswith("psql"):
                shown = subprocess.run(["/bin/sh", "-c", step.line], check=True, capture_output=True, text=True).stdout
                shown = "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"
                assert step.missing(shown) is None, f"{step.missing(shown)!r} is not in\n{shown}"
            else:
                step.show(capsys)
