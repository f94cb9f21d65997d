"""Of a view whose every measure is an estimate no row is exact by itself; the commands say so, and do not fail."""

from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tests.serving.world import DEFINITIONS, World, hit

ALONE = DEFINITIONS.replace(
    "SOURCES =", 'alone = View(source=hits, measures={"pages": approx_count_distinct("page")})\n\nSOURCES ='
).replace("inverse)", "inverse, alone)")


@pytest.mark.parametrize(
    "command", [["status"], ["query", "alone"], ["explain", "alone"], ["sql", "FROM alone"], ["history"], ["check"]], ids=" ".join
)
def test_a_view_with_only_estimates_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    world = World(tmp_path, definitions=ALONE)
    world.append(0, *(hit(f"/{n}", n) for n in range(1, 10)))
    world.trigger()
    assert main([*command, "--project", str(tmp_path)]) == 0
    if command == ["status"]:
        (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("alone")]
        assert line.endswith("estimate")
