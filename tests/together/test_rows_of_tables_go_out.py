"""What views of a table's rows send: after every step of random stories a target has their rows, each change has the row before
and after it, and an alert is raised for the rows that meet it.
"""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable

from tandem.cli.__main__ import main
from tandem.serving.changes import watch
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.read.selection import BadSelection
from tandem.views.errors import DefinitionError
from tandem.views.project import project
from tests.samples import LONGER
from tests.together.test_rows_of_tables_are_asked import WITH_ROWS, Story, by_key

OUT = (
    WITH_ROWS.replace("import Event,", "import Alert, Event, Sink, delta_table,")
    + """
SINKS = (Sink(sizes, to=delta_table("lake/sizes"), name="lake"),)
ALERTS = (Alert(sizes, when="bytes >= 3", name="large"),)
"""
)
STEPS = 40 if LONGER else 8


def run(story: Story, capsys: pytest.CaptureFixture[str], *command: str) -> Any:
    assert main([*command, "--project", str(story.world.folder), "--json"]) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out.splitlines()[-1])


@pytest.mark.parametrize("seed", range(3 if LONGER else 1))
def test_each_step_sends_what_it_changed(seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    story = Story(tmp_path, Random(seed), OUT)
    story.append(0, "/a", 1)
    story.commit()
    connection = Connection(Store(story.world.tables, 3))
    store = connection.store
    reader = watch(store, store.pinned(), "sizes", None, RowsWanted(output="changes"))
    folded, operations, edges = dict[bool, Any](), set[str](), 0
    for step in range(STEPS):
        if step == STEPS - 1:
            for page in ("/a", "/b", "/c", None):
                story.append(99, page, -1)
            story.commit()
        elif step:
            story.play()
        rows = story.rows()
        connection.refresh()
        update = reader.look(store.pinned(), always=True)
        assert update is not None
        for change in update.envelopes():
            before, after = ({} if row is None else by_key([row]) for row in (change["before"], change["after"]))
            ((key, _),) = (before or after).items()
            assert before == {odd: row for odd, row in folded.items() if odd == key}, "what the target had"
            folded = {odd: row for odd, row in {**folded, **after}.items() if odd != key or after}
            operations.add(change["op"])
        reader.sent(update)
        assert folded == rows
        run(story, capsys, "sink", "lake", "--once")
        assert by_key(DeltaTable(tmp_path / "lake" / "sizes").to_pyarrow_table().to_pylist()) == rows
        run(story, capsys, "alerts", "run", "--once")
        (large,) = run(story, capsys, "alerts")["alerts"]
        assert {each["row"]["odd"] for each in map(place, large["raised"])} == {odd for odd in rows if rows[odd]["bytes"] >= 3}
        edges += len(large["raised"])
    assert {"u", "d"} <= operations
    assert folded == {}
    assert edges


def place(raised: dict[str, Any]) -> dict[str, Any]:
    """What is raised, with the row's key among its values."""
    return {"row": {**raised.get("place", {}), **raised["now"]["row"]}}


def test_rows_without_windows_are_never_final(tmp_path: Path) -> None:
    story = Story(tmp_path, Random(7), OUT)
    story.append(0, "/a", 1)
    story.commit()
    store = Store(story.world.tables, 3)
    with pytest.raises(BadSelection, match="sizes"):
        watch(store, store.pinned(), "sizes", None, RowsWanted(output="append"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "tandem.toml").touch()
    changed = OUT.replace('delta_table("lake/sizes"), name', 'delta_table("lake/sizes"), output="append", name')
    (tmp_path / "other" / "definitions.py").write_text(changed)
    with pytest.raises(DefinitionError, match="sizes"):
        project.load(tmp_path / "other")
