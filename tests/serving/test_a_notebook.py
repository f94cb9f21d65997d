"""A plain Python process, as a notebook is, reads a whole project by `tandem.spark` during a feed, and writes none of it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import feather

from tandem.cli.__main__ import main
from tandem.serving.read.merged_layers import Reader
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.rows import to_rows
from tests.serving.test_a_project_in_spark import by_delta_rs, fed
from tests.serving.world import SOURCE, World, position
from tests.stack import PYTHONPATH, environ

CELLS = """
import sys
from pathlib import Path

from pyarrow import feather

from tandem import spark

session = spark.session(sys.argv[1])
shop = spark.snapshot(sys.argv[1])
print("pinned", flush=True)
sys.stdin.readline()

frames = {name: shop.view(name) for name in shop.views}
for source in shop.sources:
    frames |= {f"{source}_events": shop.events(source), f"{source}_quarantine": shop.quarantine(source)}
shop.register()
for name, frame in frames.items():
    feather.write_feather(frame.toArrow(), Path(sys.argv[2]) / name)
    assert session.table(name).count() == frame.count()
    for write in (
        lambda: session.sql(f"INSERT INTO {name} SELECT * FROM {name}"),
        lambda: session.sql(f"DELETE FROM {name}"),
        lambda: frame.write.insertInto(name),
    ):
        try:
            write()
        except Exception:
            pass
        else:
            print("written to", name)
print(sorted(frames))
"""


def asked(world: World, view: str, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """The rows that `query` prints."""
    capsys.readouterr()
    assert main(["query", view, "--project", str(world.folder), "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return rows


def unordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


@pytest.mark.slow  # test_a_project_in_spark.py has the same frames
@pytest.mark.spark
def test_a_notebook_gets_the_rows_of_query_and_delta_rs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, found = tmp_path / "project", tmp_path / "found"
    for folder in (project, found):
        folder.mkdir()
    world = fed(project)
    before = {view: asked(world, view, capsys) for view in world.project.views}
    environment = {**environ(), "PYTHONPATH": PYTHONPATH, "TANDEM_SPARK_MASTER": "local[1]"}
    notebook = subprocess.Popen(
        [sys.executable, "-c", CELLS, str(project), str(found)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert notebook.stdout is not None
    try:
        assert notebook.stdout.readline() == "pinned\n"
        # The feed goes on, and what is published does.
        world.trigger()
        world.recompute(world.end)
        out, err = notebook.communicate("\n", timeout=300)
    finally:
        notebook.kill()
    names = sorted([*before, f"{SOURCE}_events", f"{SOURCE}_quarantine"])
    assert (notebook.returncode, out) == (0, f"{names}\n"), err

    def rows(name: str) -> pa.Table:
        return feather.read_table(found / name)

    reader = Reader(world.tables)
    for view, answered in before.items():
        assert unordered(json.loads(json.dumps(to_rows(reader.view(view), rows(view)), default=str))) == unordered(answered)
        assert asked(world, view, capsys) != answered
    decoder, tables = decoder_fingerprint(world.project.sources[SOURCE]), world.tables
    for name, table, place in (
        (f"{SOURCE}_events", tables.events(SOURCE, decoder), ("_topic_id", "_partition", "_offset")),
        (f"{SOURCE}_quarantine", tables.quarantine(SOURCE, decoder), ("topic_id", "partition", "offset")),
    ):
        held = rows(name)
        assert unordered(held.to_pylist()) == by_delta_rs(table, held.column_names, place, position(31))
