"""The demo reads a sink's table when its token counts enough, and writes to no target of the project."""

from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.cli.command.call import Call
from tandem.cli.demo.checks import compare, rows_up_to, whole_tables
from tandem.ledger.log.positions import LOG_START
from tandem.serving.read.outcome import given
from tandem.serving.read.reader import Reader
from tests.serving.world import DEFINITIONS, World, hit

SINKS = """
from tandem import Sink, delta_table

lake = Sink(per_page, to=delta_table("lake"))
busy = Sink(per_page, to=delta_table("busy"), where="n > 1")
"""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("TANDEM_SINKS_TRIAL", "trial")
    made = World(tmp_path, definitions=DEFINITIONS + SINKS + f'far = Sink(per_page, to=delta_table("{tmp_path}/far"))\n')
    made.append(0, hit("/a", 1), hit(None, 2), hit("/a", 3))
    made.trigger()
    return made


def run(world: World, sink: str) -> int:
    return main(["sink", sink, "--once", "--project", str(world.folder)])


def test_a_table_is_read_once_its_token_counts_enough(world: World) -> None:
    call = Call(world.folder, json=True, debug=False, environ={"TANDEM_SINKS_TRIAL": "trial"})
    ((view, folder),) = whole_tables(call).values()
    assert rows_up_to(view, folder, LOG_START) is None
    assert run(world, "lake") == 0
    early = world.end
    assert rows_up_to(view, folder, early) is not None
    world.append(0, hit("/b", 4))
    world.trigger()
    assert rows_up_to(view, folder, world.end) is None
    assert run(world, "lake") == 0
    rows = rows_up_to(view, folder, world.end)
    assert rows is not None
    expected = given(Reader(world.tables).answer("per_page")).rows()
    views = {"per_page": view}
    assert compare("tail", views, {"per_page": expected}, {"per_page": rows}).passed
    assert not compare("tail", views, {"per_page": expected}, {"per_page": rows[1:]}).passed


def test_a_trial_writes_into_its_folder_alone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert [run(world, sink) for sink in ("lake", "busy", "far")] == [0, 0, 1]
    assert "no sink 'far'" in capsys.readouterr().err
    assert sorted(path.name for path in (world.folder / "trial").iterdir()) == ["busy", "lake"]
    assert not any((world.folder / name).exists() for name in ("lake", "busy", "far"))
