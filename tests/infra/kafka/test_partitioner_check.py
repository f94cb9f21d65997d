"""Keys are partitioned as by every Kafka client; a topic that is partitioned otherwise accepts no more records."""

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from zlib import crc32

import pytest
from confluent_kafka import Producer
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from examples.truth import murmur2
from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.infra.kafka.partitioner import partition_of
from tandem.infra.kafka.partitioner_check import placed_by_crc32
from tandem.infra.spark.kafka_source import kafka_options
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import first_publication
from tandem.views.project.project import load
from tests.infra.kafka.clients import CLIENTS
from tests.infra.kafka.keyed import DEFINITIONS
from tests.infra.kafka.tools import Tools
from tests.stack import consumed, kafka_toml, librdkafka, new_topic, stack_settings

GENERATOR = """
SOURCE = "lines"

def generate(seed, events, *, base, duplicates):
    yield b"0", b'{"id": "0", "at": "2026-11-01T08:00:00Z"}', None

class Truth:
    pass
"""
KEYS = st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=50)


@given(KEYS, st.integers(1, 9))
def test_keys_placed_by_crc32_are_recognized(keys: list[bytes], partitions: int) -> None:
    by_crc32 = [(crc32(key) % partitions, key) for key in keys]
    by_murmur2 = [((murmur2(key) & 0x7FFFFFFF) % partitions, key) for key in keys]
    assert placed_by_crc32(by_crc32, partitions) == (set(by_crc32) != set(by_murmur2))
    assert not placed_by_crc32(by_murmur2, partitions)
    both = [*by_crc32, *by_murmur2]
    assert not placed_by_crc32(both, partitions)


@given(st.binary(max_size=40), st.integers(1, 100))
def test_the_examples_own_murmur2_agrees(key: bytes, partitions: int) -> None:
    assert partition_of(key, partitions) == (murmur2(key) & 0x7FFFFFFF) % partitions


def keys_of_text() -> list[str]:
    """A thousand keys as a terminal can give them: the empty one, and UTF-8 of 1 to 8 bytes, below and above 0x7f."""
    dice, found = Random(7), {""}
    letters = [chr(code) for code in (*range(0x20, 0x7F), *range(0xA1, 0x100), *range(0x391, 0x3C0), *range(0x1F600, 0x1F640))]
    while len(found) < 1000:
        key = "".join(dice.choices(letters, k=dice.randint(1, 8)))
        if len(key.encode()) <= 8:
            found.add(key)
    return sorted(found)


def keys_of_bytes() -> list[bytes]:
    """A thousand keys of any bytes: the empty one, and each length from 1 to 8."""
    dice, found = Random(7), {b""}
    while len(found) < 1000:
        found.add(dice.randbytes(1 + len(found) % 8))
    return sorted(found)


def placed(connection: kafka.Connection, topic: kafka.Topic) -> dict[bytes | None, set[int]]:
    """The partitions of each key."""
    found: dict[bytes | None, set[int]] = {}
    for record in consumed(connection, topic):
        found.setdefault(record.key, set()).add(record.partition)
    return found


@pytest.mark.broker
@pytest.mark.spark
def test_java_spark_and_both_clients_choose_the_same_partitions(broker: kafka.Connection, spark: SparkSession) -> None:
    """Java's console producer sends text alone, Spark's sink any bytes; a null key belongs nowhere, and is not the empty one."""
    texts, keys = keys_of_text(), [*map(str.encode, keys_of_text()), *keys_of_bytes()]
    assert {len(key) for key in keys} == set(range(9))
    by_java, by_spark = new_topic(broker, partitions=7), new_topic(broker, partitions=7)
    Tools(broker.address).produce(by_java, [(key, "v") for key in [*texts, None]])
    options = kafka_options(broker.address)
    frame = spark.createDataFrame([(bytearray(key), bytearray(b"v")) for key in keys], "key binary, value binary")
    frame.write.format("kafka").options(**options).option("topic", by_spark.name).save()
    expected = placed(broker, by_spark)
    assert expected == {key: {(murmur2(key) & 0x7FFFFFFF) % 7} for key in keys}
    found = placed(broker, by_java)
    assert len(found.pop(None)) == 1
    assert found == {key.encode(): expected[key.encode()] for key in texts}
    for client in CLIENTS:
        topic = new_topic(broker, partitions=7)
        with client.sender(broker.address) as sender:
            for key in [*keys, None]:
                sender.send(topic.name, b"v", key)
        found = placed(broker, topic)
        assert len(found.pop(None)) == 1, client.name
        assert found == expected, client.name


@pytest.mark.broker
def test_up_feed_generate_and_serve_refuse_a_topic_of_crc32(
    broker: kafka.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = new_topic(broker)
    (tmp_path / "tandem.toml").write_text(kafka_toml(broker))
    (tmp_path / "definitions.py").write_text(DEFINITIONS.format(topic=topic.name))
    (tmp_path / "lines.txt").write_bytes(b"".join(b'{"id": "%d", "at": "2026-11-01T08:00:00Z"}\n' % n for n in range(30)))
    feed = ["feed", str(tmp_path / "lines.txt"), "--source", "lines", "--project", str(tmp_path)]
    assert main(feed) == 0
    assert main(feed) == 0
    (tmp_path / "generator.py").write_text(GENERATOR)
    generate = ["generate", "--project", str(tmp_path)]
    assert main(generate) == 0
    capsys.readouterr()
    old = kafka.create(broker, [f"{topic.name}-old"], stack_settings(broker, tmp_path))[f"{topic.name}-old"]
    producer = Producer({**librdkafka(broker), "partitioner": "consistent_random"})
    for number in range(30):
        producer.produce(old.name, b'{"id": "%d"}' % number, b"%d" % number)
    assert producer.flush(20) == 0
    (tmp_path / "definitions.py").write_text(DEFINITIONS.format(topic=old.name))
    first_publication.live(Tables(str(tmp_path / ".tandem" / "tables")), lambda: load(tmp_path), by="test", at=datetime.now(UTC))
    up, serve = ["up", "--project", str(tmp_path)], ["serve", "--port", "0", "--project", str(tmp_path)]
    for command in (feed, generate, up, serve):
        assert main(command) == 1
        said = capsys.readouterr().err
        assert f"topic '{old.name}' of source 'lines' was partitioned by CRC-32" in said
        assert "name a new topic in the source and feed it again" in said
    assert sum(kafka.ends(broker, [old]).values()) == 30
