"""The real parts that tests share: one embedded broker and one Spark session for the whole run."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from kafka import KafkaConsumer, TopicPartition
from kafka.admin import NewTopic
from pyspark.sql import SparkSession

from tandem.infra import folders, kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.kafka.kafka_python import client, records
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings, SparkSettings
from tandem.infra.spark.session import get_or_create_session

_TOPICS = count(1)
PYTHONPATH = os.pathsep.join((str(folders.IMPORTED), str(folders.ROOT)))
"""What a child process needs to import this checkout."""


def environ() -> dict[str, str]:
    """This process's environment without settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.BrokerConnection]:
    """A connection to the run's one embedded broker; make topics of your own."""
    settings = Settings(state=str(tmp_path_factory.mktemp("broker")), kafka=KafkaSettings(memory="320m", timeout_s=20))
    with background.starting(settings.folder):
        process = embedded.start(settings, environ=environ())
    try:
        yield kafka.connect(embedded.address(settings))
    finally:
        background.stop(settings.folder, process, seconds=20)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The run's one Spark session, on two cores."""
    settings = Settings(state=str(tmp_path_factory.mktemp("spark")), spark=SparkSettings(master="local[2]"))
    session = get_or_create_session(settings, "tests", environ=environ())
    yield session
    session.stop()


def stack_settings(connection: kafka.BrokerConnection, state: Path, **changes: object) -> Settings:
    """Settings of a project of its own at the shared broker."""
    return Settings(state=str(state), kafka=shared_kafka(connection.address), spark=SparkSettings(master="local[2]"), **changes)  # type: ignore[arg-type]


def shared_kafka(address: kafka.Address) -> KafkaSettings:
    """`[kafka]` of a project that has the shared broker for an outside one, and logs in to it."""
    told = address.options
    return KafkaSettings(
        bootstrap=address.bootstrap,
        security=cast("Any", told["security.protocol"]),
        mechanism=cast("Any", told["sasl.mechanism"]),
        username=told["sasl.username"],
        password=told["sasl.password"],
        timeout_s=address.timeout_s,
    )


def kafka_toml(connection: kafka.BrokerConnection) -> str:
    """The same as the lines of a `tandem.toml`, from its heading on."""
    chosen = msgspec.structs.asdict(shared_kafka(connection.address))
    names = ("bootstrap", "security", "mechanism", "username", "password", "timeout_s")
    return "[kafka]\n" + "".join(f"{name} = {json.dumps(chosen[name])}\n" for name in names)


def librdkafka(connection: kafka.BrokerConnection) -> dict[str, str]:
    """What a producer of confluent-kafka needs to reach the shared broker."""
    return {"bootstrap.servers": connection.address.bootstrap, **connection.address.options}


def new_topic(connection: kafka.BrokerConnection, *, partitions: int = 2) -> kafka.Topic:
    """A topic that no other test uses, ready for use."""
    name = f"topic-{next(_TOPICS)}"
    return kafka.create(connection, [name], Settings(kafka=KafkaSettings(partitions=partitions)))[name]


def produce(
    connection: kafka.BrokerConnection,
    topic: kafka.Topic,
    values: Sequence[bytes | None],
    *,
    partition: int = 0,
    at: datetime | None = None,
) -> None:
    """Append the values to one partition, in order, all acknowledged; `at` is their append time, now unless given."""
    milliseconds = int((at or datetime.now(UTC)).timestamp() * 1000)
    with kafka.Sender(connection.address) as sender:
        for value in values:
            sender.send_as(topic.name, partition, kafka.Record(milliseconds, None, value))


def consumed(connection: kafka.BrokerConnection, topic: kafka.Topic) -> list[Any]:
    """Every committed record of a topic, partition by partition, as kafka-python's own consumer reads it."""
    records.provide_codecs()
    ends = {TopicPartition(topic.name, number): end for (_, number), end in kafka.ends(connection, [topic]).items()}
    options = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "isolation_level": "read_committed"}
    consumer = KafkaConsumer(**client.configuration(connection.address), **options)
    found: list[Any] = []
    try:
        consumer.assign(list(ends))
        while any(consumer.position(place) < end for place, end in ends.items()):
            found += [record for batch in consumer.poll(200).values() for record in batch]
    finally:
        consumer.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


def create_as(
    connection: kafka.BrokerConnection, name: str, configuration: Mapping[str, str], *, partitions: int = 2
) -> kafka.Topic:
    """Make a topic that is configured as no topic of ours is."""
    connection.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=dict(configuration))])
    return kafka.create(connection, [name], Settings())[name]


def delete_topic(connection: kafka.BrokerConnection, name: str) -> None:
    """Delete a topic, and wait until the broker has it no longer."""
    connection.admin.delete_topics([name])
    while kafka.describe(connection, [name]):
        pass


def delete_below(connection: kafka.BrokerConnection, topic: kafka.Topic, offsets: Mapping[int, int]) -> None:
    """Have the broker delete its oldest records, as retention does; all that there are below -1."""
    kafka.delete_before(connection, [topic], {(topic.id, number): offset for number, offset in offsets.items()})


def add_partitions(connection: kafka.BrokerConnection, topic: kafka.Topic, partitions: int) -> kafka.Topic:
    """Have a topic grow to so many partitions."""
    connection.admin.create_partitions({topic.name: partitions})
    while (grown := kafka.topic(connection, topic.name)).partitions < partitions:
        pass
    return grown
