"""Appending for many callers: every record of a batch has its outcome, in order, and closing waits for all."""

import pytest

from tandem.infra import kafka
from tandem.infra.kafka import Appended, NotAppended, Outcome, Record
from tests.stack import new_topic

pytestmark = pytest.mark.broker


def test_each_record_of_each_batch_gets_its_position(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker)
    told: dict[int, list[Outcome]] = {}
    appender = kafka.Appender(broker.address, seconds=20)
    for batch in range(20):
        records = [Record(0, b"%d" % (n % 7), b"%d/%d" % (batch, n), (("batch", b"%d" % batch),)) for n in range(50)]
        appender.append(topic.name, records, lambda outcomes, batch=batch: told.update({batch: list(outcomes)}))
    appender.close()
    starts = {(topic.id, number): 0 for number in range(topic.partitions)}
    found = kafka.records(broker, [topic], starts, most=10_000)
    assert sum(map(len, found.values())) == 1000
    for batch, outcomes in told.items():
        for number, outcome in enumerate(outcomes):
            assert isinstance(outcome, Appended)
            assert outcome.offset is not None
            record = found[topic.id, outcome.partition][outcome.offset]
            assert (record.key, record.value) == (b"%d" % (number % 7), b"%d/%d" % (batch, number))
            assert record.headers == (("batch", b"%d" % batch),)
    assert len(told) == 20
    assert not appender.broken


def test_a_refused_record_does_not_fail_others(broker: kafka.BrokerConnection) -> None:
    topic = new_topic(broker, partitions=1)
    told: list[Outcome] = []
    appender = kafka.Appender(broker.address, seconds=20)
    values = [b"one", b"x" * 1_100_000, b"two"]
    appender.append(topic.name, [Record(0, None, value) for value in values], told.extend)
    appender.close()
    first, refused, last = told
    assert (first, last) == (Appended(0, 0), Appended(0, 1))
    assert isinstance(refused, NotAppended)
    assert refused.sure
    assert "too large" in refused.why


def test_without_a_broker_every_record_is_given_up() -> None:
    """None is claimed to be in the log, or not to be."""
    told: list[Outcome] = []
    appender = kafka.Appender(kafka.Address("127.0.0.1:1", {}, 1), seconds=0.3)
    appender.append("nowhere", [Record(0, None, b"one"), Record(0, None, b"two")], told.extend)
    appender.close()
    assert [one.sure for one in told if isinstance(one, NotAppended)] == [False] * 2
