"""`verify --all` agrees for the project of `init` and for every example, over events of their own generators."""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.views.project import project
from tests.stack import kafka_toml, new_topic

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(file.parent for file in (ROOT / "examples").glob("*/definitions.py"))
EVENTS = 400

pytestmark = pytest.mark.broker


def test_no_example_is_forgotten() -> None:
    assert {example.name for example in EXAMPLES} >= {"access_log", "cards", "demo", "sensors", "web", "words"}


def test_the_project_of_init_verifies(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "my shop"
    assert main(["init", str(folder)]) == 0
    at_the_broker(folder, broker)
    assert main(["feed", str(folder / "orders.jsonl"), "--source", "orders", "--project", str(folder)]) == 0
    assert_verified(folder, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_every_example_verifies(
    example: Path, broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for file in ("definitions.py", "generator.py"):
        (tmp_path / file).write_text((example / file).read_text())
    at_the_broker(tmp_path, broker)
    samples = [f"--events={EVENTS}", "--duplicates=0.05", "--base=2026-11-01T08:00:00Z"]
    assert main(["generate", *samples, "--project", str(tmp_path)]) == 0
    assert_verified(tmp_path, capsys)


def at_the_broker(folder: Path, broker: kafka.BrokerConnection) -> None:
    """Let each source of the project read a new topic of the shared broker."""
    definitions = folder / "definitions.py"
    text, replaced = re.subn(r'\btopic="\w+"', lambda _: f'topic="{new_topic(broker).name}"', definitions.read_text())
    definitions.write_text(text)
    (folder / "tandem.toml").write_text(f'{kafka_toml(broker)}[spark]\nmaster = "local[2]"\n')
    assert replaced == len(project.load(folder).sources)


def assert_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Archive and publish what is in the log; `verify` then has looked at each view, and found nothing that differs."""
    assert main(["recompute", "--archive", "--project", str(folder)]) == 0
    capsys.readouterr()
    assert main(["verify", "--all", "--json", "--project", str(folder)]) == 0
    found = json.loads(capsys.readouterr().out)
    sources = found["sources"].values()
    sampled = {one["view"]: one for source in sources for one in source["sampled"]}
    assert found["agree"]
    assert set(sampled) == set(project.load(folder).views)
    assert [name for name, one in sampled.items() if not one["answers"] or one["differ"]] == []
    for counts in (counts for source in sources for counts in source["counts"].values()):
        assert counts["events"] > 0
