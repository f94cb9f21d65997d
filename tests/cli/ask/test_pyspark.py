"""`pyspark` gives a shell and a script the session and the DataFrames at one snapshot, and registers their names in SQL."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.serving import Value
from tandem.serving.read.merged_layers import Reader
from tests.serving.world import NOON, World, forty_hits
from tests.stack import PYTHONPATH, environ

EARLY = "2020-01-01T00:00:00+00:00"
SCRIPT = """
import json
import sys

import beside

print(json.dumps([sys.argv, beside.NAME, __name__, at.publication]))
print(json.dumps([[row.n, int(row.bytes)] for row in spark.sql("SELECT n, bytes FROM ever").collect()]))
print(json.dumps([at.events("hits").count(), spark.table("hits_quarantine").count()]))
print(json.dumps(snapshot(publication=1).view("ever").count()))
raise ValueError("the report is wrong")
"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("site"))


def tandem(world: World, *arguments: str, typed: str = "") -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "tandem.cli", "pyspark", *arguments]
    variables = {**environ(), "PYTHONPATH": PYTHONPATH, "TANDEM_SPARK_MASTER": "local[1]", "TANDEM_PROJECT": str(world.folder)}
    return subprocess.run(
        command, input=typed, env=variables, cwd=world.folder, capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.slow
@pytest.mark.spark
def test_a_script_gets_the_published_tables_and_its_arguments(world: World, tmp_path: Path) -> None:
    script = tmp_path / "report.py"
    script.write_text(SCRIPT)
    (tmp_path / "beside.py").write_text("NAME = 'a module beside the script'\n")
    done = tandem(world, str(script), "--", "all", "--json")
    answer = Reader(world.tables).answer("ever")
    assert isinstance(answer, Value)
    (row,) = answer.rows()
    told: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    assert told == [
        [[str(script), "all", "--json"], "a module beside the script", "__main__", 2],
        [[row["n"], row["bytes"]]],
        [30, 1],
        0,
    ], done.stderr
    assert done.returncode == 1
    first, *stack, last = done.stderr.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", "ValueError: the report is wrong")
    assert [line for line in stack if line.startswith("  File")] == [f'  File "{script}", line 11, in <module>']


@pytest.mark.slow
@pytest.mark.spark
def test_a_shell_gets_the_published_tables(world: World) -> None:
    done = tandem(
        world, "--publication", "2", typed="print(at.view('ever').collect()[0].n, 'hits')\nspark.table('ever').count()\n"
    )
    assert done.returncode == 0, done.stderr
    assert "29 hits" in done.stdout
    assert "\n1" in done.stdout.replace(">>> ", "\n")
    assert "publication 2" in done.stderr
    assert "tables of spark.sql: per_page, ever, inverse, hits_events, hits_quarantine" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none.py"], "no script at none.py: the file does not exist"),
        (["--publication", "9"], "cannot answer from publication 9: it does not exist; retained: 1, 2"),
        (["--publication", "1", "--as-of", "2026-11-01"], "--publication and --as-of cannot be combined"),
        (["--as-of", "2020-01-01"], f"nothing was published at {EARLY}: the first publication is of {NOON.isoformat()}"),
    ],
)
def test_errors_are_reported_before_spark_starts(
    world: World, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert main(["pyspark", *arguments, "--project", str(world.folder)]) == 1
    assert capsys.readouterr().err == f"tandem: {sentence}\n"
