"""Keys are partitioned as by Java's producer and by Spark."""

from random import Random

import pytest
from pyspark.sql import SparkSession

from examples.truth import murmur2
from tandem.infra import kafka
from tandem.infra.spark.kafka_source import kafka_options
from tests.infra.kafka.tools import Tools
from tests.stack import consumed, new_topic


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


def placed(connection: kafka.BrokerConnection, topic: kafka.Topic) -> dict[bytes | None, set[int]]:
    """The partitions of each key."""
    found: dict[bytes | None, set[int]] = {}
    for record in consumed(connection, topic):
        found.setdefault(record.key, set()).add(record.partition)
    return found


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.spark
def test_java_spark_and_the_sender_choose_the_same_partitions(broker: kafka.BrokerConnection, spark: SparkSession) -> None:
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
    topic = new_topic(broker, partitions=7)
    with kafka.Sender(broker.address) as sender:
        for key in [*keys, None]:
            sender.send(topic.name, b"v", key)
    found = placed(broker, topic)
    assert len(found.pop(None)) == 1
    assert found == expected
