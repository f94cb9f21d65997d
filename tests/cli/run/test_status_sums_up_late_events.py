"""Late events of a load of history are one line of `status`, and not under every answer."""

from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tests.serving.world import World, hit


def test_events_after_final_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    world = World(tmp_path)
    line = "all of them count: 8 events of view per_page in windows that were final; a load of history has many"
    for hours in (0, 5, -3):
        for partition in (0, 1):
            world.append(partition, *(hit("/a", n, minute=60 * hours + n) for n in range(4)))
        world.trigger()
        assert main(["status", "--project", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert (line in shown) == (hours == -3)
        assert "after final" not in shown
    assert main(["query", "per_page", "--project", str(tmp_path)]) == 0
    assert "final;" not in capsys.readouterr().out
