"""The real parts that tests share: one embedded broker and one Spark session for the whole run."""

import os
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import infra.spark
from infra import broker as embedded
from infra import kafka, processes
from infra.settings import Kafka, Settings, Spark

_TOPICS = count(1)


def environ() -> dict[str, str]:
    """This process's environment without settings of whoever runs the tests."""
    return {name: value for name, value in os.environ.items() if not name.startswith("TANDEM_")}


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.Connection]:
    """A connection to the run's one embedded broker; make topics of your own."""
    settings = Settings(state=str(tmp_path_factory.mktemp("broker")), kafka=Kafka(memory="320m", timeout_s=20))
    with processes.starting(settings.folder):
        process = embedded.start(settings, environ=environ())
    try:
        yield kafka.connect(embedded.address(settings))
    finally:
        processes.stop(settings.folder, process, seconds=20)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The run's one Spark session, on two cores."""
    settings = Settings(state=str(tmp_path_factory.mktemp("spark")), spark=Spark(master="local[2]"))
    session = infra.spark.session(settings, "tests", environ=environ())
    yield session
    session.stop()


def stack_settings(connection: kafka.Connection, state: Path, **changes: object) -> Settings:
    """Settings of a project of its own at the shared broker."""
    shared = Kafka(bootstrap=connection.address.bootstrap, timeout_s=connection.address.timeout_s)
    return Settings(state=str(state), kafka=shared, spark=Spark(master="local[2]"), **changes)  # type: ignore[arg-type]


def new_topic(connection: kafka.Connection, *, partitions: int = 2) -> kafka.Topic:
    """A topic that no other test uses, ready for use."""
    name = f"topic-{next(_TOPICS)}"
    return kafka.create(connection, [name], Settings(kafka=Kafka(partitions=partitions)))[name]


def produce(
    connection: kafka.Connection,
    topic: kafka.Topic,
    values: Sequence[bytes | None],
    *,
    partition: int = 0,
    at: datetime | None = None,
) -> None:
    """Append the values to one partition, in order, all acknowledged; `at` is their append time, now unless given."""
    timed = {} if at is None else {"timestamp": int(at.timestamp() * 1000)}
    with kafka.Sender(connection.address) as sender:
        for value in values:
            sender._producer.produce(topic.name, value, partition=partition, on_delivery=sender._delivered, **timed)
