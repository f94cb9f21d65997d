"""Without confluent-kafka everything works: kafka-python sends, and says so where many records are sent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from infra import kafka
from infra.jars import ROOT
from ledger.delta.addresses import Tables
from tests.batch.filed import DEFINITIONS, SOURCE, Filed, row
from tests.stack import consumed, environ, kafka_toml, new_topic, stack_settings

WITHOUT = ROOT / "tests" / "without_bulk"
PROCESS = """
import json, sys
from cli.__main__ import main
from infra import kafka
codes = [main(command) for command in json.loads(sys.argv[1])]
told = []
appender = kafka.appender(kafka.Address(sys.argv[2], json.loads(sys.argv[4]), 20), seconds=20)
appender.append(sys.argv[3], [kafka.Record(0, b"k", b"by the gateway", (("h", None),))], told.extend)
appender.close()
assert isinstance(told[0], kafka.Appended), told
print("codes", codes, "confluent_kafka" in sys.modules)
"""


def without() -> dict[str, str]:
    return {**environ(), "PYTHONPATH": os.pathsep.join(map(str, (WITHOUT, ROOT)))}


@pytest.mark.broker
def test_commands_and_the_gateway_send_by_kafka_python(broker: kafka.Connection, tmp_path: Path) -> None:
    topic = new_topic(broker)
    filed = Filed(Tables(str(tmp_path / ".tandem")))
    filed.name(SOURCE, "z")
    filed.file([row("z", 0, at) for at in range(20)], {("z", 0): 20})
    (tmp_path / "definitions.py").write_bytes(DEFINITIONS)
    (tmp_path / "tandem.toml").write_text(kafka_toml(broker))
    kafka.create(broker, ["sales"], stack_settings(broker, tmp_path))
    (tmp_path / "lines").write_bytes(b"one\ntwo\n")
    at = ["--project", str(tmp_path)]
    commands = [
        ["feed", str(tmp_path / "lines"), "--source", SOURCE, *at],
        ["replay", SOURCE, "--to", f"{topic.name}-replayed", *at],
        ["status", *at],
    ]
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            PROCESS,
            json.dumps(commands),
            broker.address.bootstrap,
            topic.name,
            json.dumps(broker.address.options),
        ],
        env=without(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.stdout.splitlines()[-1:] == [f"codes {[0] * len(commands)} False"], done.stdout + done.stderr
    assert done.stderr.count(kafka.SLOWER) == 2
    assert [record.value for record in consumed(broker, topic)] == [b"by the gateway"]
    assert len(consumed(broker, kafka.topic(broker, f"{topic.name}-replayed"))) == len(filed.rows)


@pytest.mark.slow
@pytest.mark.broker
def test_the_demo_is_exact(tmp_path: Path) -> None:
    """`up`, the speed layer, `generate`, `archive`, `recompute`, `down`."""
    command = [sys.executable, "-m", "cli", "demo", "--once", "--events=4000", "--json"]
    environment = {**without(), "TANDEM_STATE": str(tmp_path / "state")}
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
