"""docs/sql.md: its statements, run on its own project, give the output in the page."""

import json
from pathlib import Path

import pytest

from tests.documented import Command, File, steps
from tests.serving.world import World

READERS = [("12:05", "/a", "ann", 10, 5.0), ("12:10", "/a", "ann", 20, 10.0), ("12:20", "/b", "bob", 30, 20.0)]
LATER = [("12:30", "/b", "ann", 30, 25.0), ("12:59", "/a", "bob", 30, 15.0), ("13:01", "/a", "ann", 40, 40.0)]


def record(time: str, page: str, reader: str, size: int, ms: float) -> bytes:
    event = {"at": f"2026-11-01T{time}:00Z", "page": page, "reader": reader, "bytes": size, "ms": ms}
    return json.dumps(event).encode()


def test_every_statement_gives_the_output_in_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = 0
    for step in steps("sql.md"):
        if isinstance(step, File):
            world = World(tmp_path, definitions=step.text)
            for some in (READERS, LATER):
                world.append(0, *(record(*one) for one in some))
                world.trigger()
            continue
        assert isinstance(step, Command)
        step.show(capsys, "--project", str(tmp_path), code=None)
        shown += 1
    assert shown == 6
