"""Against a real broker: what waits behind a transaction that nobody ends is counted, with its age, its owner and the way on."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tandem.cli.__main__ import main
from tandem.cli.doctor import log as looks
from tandem.infra import kafka
from tandem.serving.status.open_transactions import LONG
from tandem.serving.status.sources import log_ends
from tandem.views.project import project as projects
from tests.cli.doctor.looked import fine, wrong
from tests.cli.metrics.figures import parsed
from tests.stack import create_as, kafka_toml, librdkafka, new_topic, produce, stack_settings

pytestmark = pytest.mark.broker

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source

class Sale(Event):
    at: datetime

sales = Source(topic="SALES", event=Sale, event_time="at")
SOURCES = (sales,)
VIEWS = ()
"""


def open_transaction(broker: kafka.BrokerConnection, topic: kafka.Topic, owner: str, *, partition: int) -> Producer:
    """A producer that has sent one record in a transaction, which it leaves open."""
    options = {**librdkafka(broker), "transactional.id": owner, "transaction.timeout.ms": 600_000}
    producer = Producer(options)
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic.name, b"open", partition=partition)
    producer.flush()
    return producer


@pytest.mark.slow
def test_what_waits_behind_an_open_transaction_is_named(
    broker: kafka.BrokerConnection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_as(broker, f"{new_topic(broker).name}-held", {"retention.ms": str(40 * 3_600_000)})
    definitions = DEFINITIONS.replace("SALES", topic.name)
    (tmp_path / "definitions.py").write_text(definitions)
    (tmp_path / "tandem.toml").write_text(f'state = "state"\n{kafka_toml(broker)}')
    source = projects.load_files({"definitions.py": definitions.encode(), "tandem.toml": b""}).sources["sales"]

    def output(*command: str) -> str:
        assert main([*command, "--project", str(tmp_path)]) == 0
        return capsys.readouterr().out

    def document() -> dict[str, Any]:
        sales: dict[str, Any] = json.loads(output("status", "--json"))["sources"]["sales"]
        return sales

    def metric(name: str) -> dict[tuple[str, ...], float]:
        return parsed(output("metrics")).get(name, {})

    produce(broker, topic, [b"before"] * 5)
    assert document()["open_transactions"] == []
    assert metric("tandem_open_transaction_offsets") == {}
    assert fine(tmp_path, "transactions") == "no transaction has been open for more than a minute"
    before = datetime.now(UTC) - timedelta(seconds=5)
    producer = open_transaction(broker, topic, "billing", partition=0)
    # Records of other producers wait, too. Retention deletes by their timestamps.
    produce(broker, topic, [b"behind"] * 1000, at=datetime.now(UTC) - timedelta(hours=39))
    produce(broker, topic, [b"free"] * 2, partition=1)

    source_document = document()
    (transaction,) = source_document["open_transactions"]
    assert source_document["log_end"] == {topic.id: {"0": 5, "1": 2}}
    since = transaction.pop("since")
    assert before < datetime.fromisoformat(since) < datetime.now(UTC) + timedelta(seconds=5)
    assert transaction == {
        "topic": topic.name,
        "topic_id": topic.id,
        "partition": 0,
        "offset": 5,
        "offsets": 1001,
        "transactional_id": "billing",
        "warning": None,  # it has been open for less than a minute
    }
    place = ("sales", topic.id, "0")
    assert metric("tandem_open_transaction_offsets") == {place: 1001}
    assert 0 <= metric("tandem_open_transaction_seconds")[place] < 600

    (blocked,) = log_ends(stack_settings(broker, tmp_path / "state"), [source])["sales"].blocked
    assert blocked.warning(datetime.fromisoformat(since) + LONG) == (
        f"1001 offsets of partition 0 of topic '{topic.name}' wait behind the transaction of 'billing', open since {since} at "
        "offset 5: answers and `tandem archive` end there until it is committed or aborted, and the topic's retention still "
        f"deletes records; end its producer, or abort it by Kafka's `kafka-transactions.sh abort --topic {topic.name} "
        "--partition 0 --start-offset 5`"
    )
    assert (
        "1001 offsets of partition 0"
        in wrong(tmp_path, "transactions", looks.OPEN_TRANSACTION, now=datetime.fromisoformat(since) + LONG).what
    )

    producer.abort_transaction()
    wait_until(lambda: document()["open_transactions"] == [])
    assert metric("tandem_open_transaction_seconds") == {}


def test_retention_threatens_records_that_nobody_may_read_yet(
    broker: kafka.BrokerConnection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = create_as(broker, f"{new_topic(broker).name}-kept", {"retention.ms": str(40 * 3_600_000)})
    (tmp_path / "definitions.py").write_text(DEFINITIONS.replace("SALES", topic.name))
    (tmp_path / "tandem.toml").write_text(f'state = "state"\n{kafka_toml(broker)}')
    producer = open_transaction(broker, topic, f"{topic.name}-owner", partition=1)
    produce(broker, topic, [b"behind"] * 10, partition=1, at=datetime.now(UTC) - timedelta(hours=39))
    assert main(["status", "--json", "--project", str(tmp_path)]) == 0
    left = json.loads(capsys.readouterr().out)["sources"]["sales"]["until_loss"]
    assert left["seconds"] is not None
    producer.abort_transaction()


def wait_until(condition: Callable[[], bool]) -> None:
    """The marker that ends a transaction is in the log a moment after its producer knows that it ended."""
    deadline = datetime.now(UTC) + timedelta(seconds=30)
    while not condition():
        assert datetime.now(UTC) < deadline
