"""`tandem generate` on a real broker: all acknowledged, with the time of sending, and the exact expected answers."""

import json
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from examples.web.generator import Truth, generate
from tandem.cli.records import expected_answers
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tests.stack import consumed, environ, kafka_toml

pytestmark = pytest.mark.broker

ROOT = Path(__file__).parents[2]
WEB = ROOT / "examples" / "web"
BASE = "2026-11-01T08:00:00Z"


@pytest.fixture
def project(broker: kafka.BrokerConnection, tmp_path: Path) -> Path:
    """A copy of examples/web with a topic of its own at the shared broker."""
    topic = f"generated-{tmp_path.name}"
    for file in ("definitions.py", "generator.py"):
        (tmp_path / file).write_text((WEB / file).read_text().replace('topic="requests"', f'topic="{topic}"'))
    (tmp_path / "tandem.toml").write_text(kafka_toml(broker))
    kafka.create(broker, [topic], Settings())
    return tmp_path


def command(project: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "tandem.cli", "generate", "--project", str(project), "--json", f"--base={BASE}", *options]


def records(broker: kafka.BrokerConnection, project: Path) -> list[Any]:
    """Everything in the project's topic, partition by partition."""
    return consumed(broker, kafka.topic(broker, f"generated-{project.name}"))


def counted(samples: int) -> dict[str, list[dict[str, Any]]]:
    truth = Truth()
    for _, _, facts in generate(1, samples, base=datetime(2026, 11, 1, 8, tzinfo=UTC)):
        if facts is not None:
            truth.add(facts)
    return truth.manifest()


@pytest.mark.slow
def test_all_events_are_acknowledged_and_a_later_run_continues(broker: kafka.BrokerConnection, project: Path) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    for options in (["--events=3000"], ["--events=4000", "--skip=3000", f"--truth={project / 'truth.json'}"]):
        run = subprocess.run(
            command(project, *options), env=environ(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
        )
        assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["acknowledged"] == 1000
    assert expected_answers.read(project / "truth.json") == counted(4000)
    sent = records(broker, project)
    expected = generate(1, 4000, base=datetime(2026, 11, 1, 8, tzinfo=UTC))
    assert sorted((record.key, record.value) for record in sent) == sorted((key, value) for key, value, _ in expected)
    times = [datetime.fromtimestamp(record.timestamp / 1000, UTC) for record in sent]
    assert before < min(times) <= max(times) < datetime.now(UTC) + timedelta(seconds=1), "timestamps are those of sending"


@pytest.mark.slow
def test_generate_waits_no_longer_than_within(broker: kafka.BrokerConnection, project: Path) -> None:
    options = ["--events=7", "--wait", "--within=0.3"]
    run = subprocess.run(
        command(project, *options), env=environ(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert run.returncode == 3, run.stderr
    found = json.loads(run.stdout)
    assert (found["acknowledged"], found["uncounted"], len(records(broker, project))) == (7, 7, 7)
    assert run.stderr.endswith("tandem: 7 of 7 records are not counted after 0.3 s\n")


@pytest.mark.slow
def test_a_stop_writes_the_expected_answers_of_the_sent_events(broker: kafka.BrokerConnection, project: Path) -> None:
    truth = project / "truth.json"
    child = subprocess.Popen(
        command(project, "--rate=500", f"--truth={truth}"), env=environ(), cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    topic = kafka.topic(broker, f"generated-{project.name}")
    deadline = time.monotonic() + 300
    while sum(kafka.ends(broker, [topic]).values()) < 500:
        assert time.monotonic() < deadline
        assert child.poll() is None
        time.sleep(0.1)
    child.send_signal(signal.SIGTERM)
    out, _ = child.communicate(timeout=300)
    assert child.returncode == 0
    acknowledged = json.loads(out)["acknowledged"]
    assert sum(kafka.ends(broker, [topic]).values()) == acknowledged
    assert expected_answers.read(truth) == counted(acknowledged)


def test_without_a_broker_generate_fails_in_one_sentence_and_writes_nothing(project: Path) -> None:
    (project / "tandem.toml").write_text('[kafka]\nbootstrap = "127.0.0.1:1"\n')
    truth = project / "truth.json"
    run = subprocess.run(
        command(project, "--events=10", f"--truth={truth}"),
        env=environ(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 1
    assert run.stderr.startswith("tandem: no Kafka broker at 127.0.0.1:1")
    assert run.stderr.count("\n") == 1
    assert not truth.exists()
