"""On a real broker: topics that join a pattern while the speed layer runs, while it is down, and before anything reads them."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive as archiving
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.kafka.source_topics import topic_to_send_to
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.views.project.project import load_files
from tests.speed.process.test_killed import layer
from tests.speed.sales import Running, answered, per_minute, project_files, settings_for, some, total, wait_for
from tests.stack import PYTHONPATH, delete_topic, environ, kafka_toml, produce

pytestmark = pytest.mark.broker


def files(prefix: str) -> dict[str, bytes]:
    """The project of sales whose topics begin with a prefix."""
    text = project_files()["definitions.py"].replace(b'topic="sales"', f'topic=pattern("{prefix}-.*")'.encode())
    return {"definitions.py": text.replace(b"maximum, total", b"maximum, pattern, total"), "tandem.toml": b""}


def create(broker: kafka.BrokerConnection, name: str) -> kafka.Topic:
    return kafka.create(broker, [name], Settings())[name]


def counts(settings: Settings, numbers: list[int]) -> bool:
    return answered(settings) == per_minute(numbers)


@pytest.mark.slow
def test_topics_that_join_are_counted_from_their_first_record(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, project = settings_for(broker, tmp_path), load_files(files("joins"))
    create(broker, "not-joins-a")
    first = Running(settings)
    first.start(spark, project)
    assert first.error is None, first.error
    ids = []
    for name, numbers in (("joins-b", range(30)), ("joins-a", range(20, 60))):
        topic = create(broker, name)
        ids.append(topic.id)
        produce(broker, topic, some(numbers))
        first.ahead += timedelta(seconds=6)
        wait_for(lambda: counts(settings, [*range(numbers[-1] + 1)]))  # noqa: B023 - it is called here
    first.stop.set()
    first.join()
    assert first.error is None, first.error
    assert [said.split(";")[0] for said in first.said] == [
        f"source 'sales': of the topics of pattern(\"joins-.*\") there is now {name}" for name in ("joins-b", "joins-a")
    ]
    delete_topic(broker, "joins-b")
    produce(broker, create(broker, "joins-c"), some(range(60, 70)))
    run = BatchRun(settings, "archive", lambda: datetime.now(UTC), lambda _: None, environ())
    (archived,) = archiving.run(run, lambda: project)
    assert archived.counts.records == 50, "what the deleted topic had is a gap"
    assert [*ArchiveLedger(Tables.of(settings), "sales").topic_names().items()][:2] == [(ids[0], "joins-b"), (ids[1], "joins-a")]
    again = Running(settings, ahead=first.ahead)
    again.start(spark, project)
    wait_for(lambda: counts(settings, [*range(70)]))
    again.stop.set()
    again.join()
    assert again.error is None, again.error
    assert (total(settings, "events"), total(settings, "duplicates")) == (70, 10)


def test_no_topic_is_created_to_send_to(broker: kafka.BrokerConnection) -> None:
    source = load_files(files("sent")).sources["sales"]
    with pytest.raises(kafka.NoTopic, match=r"topic 'sent-a' does not exist at .*; `tandem up` creates no topic for a pattern"):
        topic_to_send_to(broker, source, "sent-a")
    there = create(broker, "sent-a")
    assert topic_to_send_to(broker, source, "sent-a") == there


def status(project: Path) -> Any:
    command = [sys.executable, "-m", "tandem.cli", "status", "--json", "--project", str(project)]
    done = subprocess.run(command, env={**environ(), "PYTHONPATH": PYTHONPATH}, capture_output=True, check=False)
    return json.loads(done.stdout)["sources"]["sales"]


@pytest.mark.slow
def test_a_layer_that_is_killed_as_a_topic_joins_counts_it_from_its_first_record(
    broker: kafka.BrokerConnection, tmp_path: Path
) -> None:
    project, log = tmp_path / "project", tmp_path / "log"
    settings = settings_for(broker, project / ".tandem")
    project.mkdir()
    for name, content in files("kills").items():
        (project / name).write_bytes(content)
    (project / "tandem.toml").write_text(f'{kafka_toml(broker)}[spark]\nmaster = "local[2]"\n')
    with layer(project, log) as process:
        before = status(project)
        assert (before["topic_pattern"], before["topics"], before["log_end"]) == ("kills-.*", [], {})
        a = create(broker, "kills-a")
        produce(broker, a, some(range(20)))
        wait_for(lambda: counts(settings, [*range(20)]))
        b = create(broker, "kills-b")
        produce(broker, b, some(range(10, 40)))
        wait_for(lambda: len(ArchiveLedger(Tables.of(settings), "sales").topic_names()) == 2)
        process.kill()
    c = create(broker, "kills-c")
    produce(broker, c, some(range(40, 50)))
    states = [(topic["name"], topic["id"], topic["state"]) for topic in status(project)["topics"]]
    assert states == [("kills-a", a.id, "read"), ("kills-b", b.id, "read"), ("kills-c", c.id, "new")]
    with layer(project, log):
        wait_for(lambda: counts(settings, [*range(50)]))
        assert {topic["state"] for topic in status(project)["topics"]} == {"read"}
    assert total(settings, "duplicates") == 10
