"""Without confluent-kafka everything works: kafka-python sends, and commands that send many records print so."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.infra.folders import ROOT
from tests.infra.kafka.keyed import DEFINITIONS
from tests.stack import PYTHONPATH, consumed, environ, kafka_toml, new_topic

WITHOUT = ROOT / "tests" / "without_bulk"
PATIENCE_S = 120
# Every command in one process, as a script of a user's would call them.
COMMANDS = """
import json, sys
from tandem.cli.__main__ import main
codes = [main([*command, "--project", sys.argv[1]]) for command in json.loads(sys.argv[2])]
print("codes", codes, "confluent_kafka" in sys.modules)
"""


def without() -> dict[str, str]:
    """The environment of a process to which the package is not installed; what it starts inherits that."""
    return {**environ(), "PYTHONPATH": os.pathsep.join((str(WITHOUT), PYTHONPATH))}


def line(number: int) -> bytes:
    return b'{"id": "%d", "at": "2026-11-01T08:00:00Z"}' % number


def counted(project: Path, capsys: pytest.CaptureFixture[str]) -> int:
    capsys.readouterr()
    assert main(["query", "hits", "--project", str(project), "--json"]) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)["rows"]
    return sum(row["n"] for row in rows)


def posted(project: Path, value: bytes) -> httpx.Response:
    """The answer of `tandem serve`, in a process of its own, to one event."""
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(project), "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, env=without(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        secret = (project / ".tandem" / "access" / "first.token").read_text().strip()
        headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
        return httpx.post(f"{address}/sources/lines/events", content=value, headers=headers, timeout=60)
    finally:
        process.terminate()
        process.communicate(timeout=60)


@pytest.mark.slow  # .ci/run has a demo without the library, too
@pytest.mark.broker
def test_every_command_and_the_gateway_work(broker: kafka.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topic = new_topic(broker)
    (tmp_path / "definitions.py").write_text(DEFINITIONS.format(topic=topic.name))
    (tmp_path / "tandem.toml").write_text(f'{kafka_toml(broker)}[spark]\nmaster = "local[1]"\n')
    (tmp_path / "lines").write_bytes(b"\n".join(map(line, range(20))))
    commands = (
        ["up"],
        ["feed", str(tmp_path / "lines"), "--source", "lines"],
        ["archive"],
        ["replay", "lines", "--to", f"{topic.name}-replayed"],
        ["status"],
        ["doctor"],
    )
    try:
        done = subprocess.run(
            [sys.executable, "-c", COMMANDS, str(tmp_path), json.dumps(commands)],
            env=without(),
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
            timeout=400,
        )
        assert done.stdout.splitlines()[-1:] == [f"codes {[0] * len(commands)} False"], done.stdout + done.stderr
        # `feed` and `replay` send.
        assert done.stderr.count(kafka.SLOWER) == 2
        answer = posted(tmp_path, line(20))
        assert answer.status_code == 200, answer.text
        deadline = time.monotonic() + PATIENCE_S
        while (found := counted(tmp_path, capsys)) != 21:
            assert time.monotonic() < deadline, found
    finally:
        main(["down", "--project", str(tmp_path)])
    assert sorted(record.value for record in consumed(broker, topic)) == sorted(map(line, range(21)))
    replayed = consumed(broker, kafka.topic(broker, f"{topic.name}-replayed"))
    assert sorted(record.value for record in replayed) == sorted(map(line, range(20)))
