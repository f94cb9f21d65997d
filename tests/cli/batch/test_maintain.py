"""The output of `maintain`, which starts no Spark."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.infra.folders import ROOT
from tests.serving.world import World, hit

ASK = """
import sys
from tandem.cli.__main__ import main
code = main(["maintain", "--project", sys.argv[1]])
print({"pyspark", "pandas", "confluent_kafka", "kafka"} & set(sys.modules))
sys.exit(code)
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, clock=datetime(2020, 1, 1, tzinfo=UTC))
    for number in range(4):
        made.append(0, hit("/a", number + 1))
        made.trigger()
        made.recompute(made.end)
    return made


def test_maintain_reports_what_it_did_for_each_table(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["maintain", "--project", str(world.folder), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["retained", "tables", "discarded", "expired", "scratch", "freed"]
    assert found["retained"] == [4, 5]
    assert found["freed"] == {"files": 0, "bytes": 0}
    expired = {row["table"].split("/")[1]: row["expired"] for row in found["tables"] if row["table"].startswith("views/")}
    assert expired == {"per_page": 2, "ever": 2, "inverse": 2}
    assert main(["query", "per_page", "--publication", "3", "--project", str(world.folder)]) == 1
    assert "retained: 1, 4, 5" in capsys.readouterr().err


@pytest.mark.slow
def test_maintain_needs_neither_spark_nor_a_broker(world: World) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(world.folder)], cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, "")
    *lines, imported = done.stdout.splitlines()
    assert lines[-1] == "freed 0 files, 0 bytes; retained publications: 4, 5"
    assert lines[0].split() == ["table", "compacted", "into", "expired", "files", "bytes"]
    assert imported == "set()"
