"""An outside broker at Kafka's defaults creates every topic that a client asks about; no client of ours makes it do so."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from kafka import KafkaConsumer, TopicPartition
from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.kafka import sending
from tandem.infra.kafka.bulk_reader import BulkReader
from tandem.infra.kafka.kafka_python.client import opening
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings
from tandem.infra.spark.kafka_source import kafka_options
from tests.stack import delete_topic, environ, new_topic, produce

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def generous(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.BrokerConnection]:
    """A broker that creates topics as Kafka does by default."""
    settings = Settings(state=str(tmp_path_factory.mktemp("generous")), kafka=KafkaSettings(memory="320m", timeout_s=5))
    with pytest.MonkeyPatch.context() as patch:
        defaults = embedded._PROPERTIES.replace("auto.create.topics.enable=false\n", "")
        assert defaults != embedded._PROPERTIES
        patch.setattr(embedded, "_PROPERTIES", defaults)
        with background.starting(settings.folder):
            process = embedded.start(settings, environ=environ())
    try:
        yield kafka.connect(embedded.address(settings))
    finally:
        background.stop(settings.folder, process, seconds=20)


def deleted(connection: kafka.BrokerConnection) -> kafka.Topic:
    """A topic that had records when it was last seen."""
    topic = new_topic(connection, partitions=1)
    produce(connection, topic, [b"{}"] * 3)
    delete_topic(connection, topic.name)
    return topic


def append(connection: kafka.BrokerConnection, topic: kafka.Topic) -> None:
    outcomes: list[kafka.Outcome] = []
    appender = kafka.Appender(connection.address, seconds=3)
    appender.append(topic.name, [kafka.Record(0, None, b"{}")], outcomes.extend)
    appender.close()
    assert isinstance(outcomes[0], kafka.NotAppended)


def send(connection: kafka.BrokerConnection, topic: kafka.Topic) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sending, "_DELIVERY_S", 3)
        sender = kafka.Sender(connection.address)
        sender.send(topic.name, b"{}")
        with pytest.raises(kafka.NotSent):
            sender.finish()


def sample(connection: kafka.BrokerConnection, topic: kafka.Topic) -> None:
    with opening(connection.address) as options:
        consumer = KafkaConsumer(**options, enable_auto_commit=False)
    try:
        consumer.assign([TopicPartition(topic.name, 0)])
        consumer.poll(1000)
    finally:
        consumer.close()


def read_in_bulk(connection: kafka.BrokerConnection, topic: kafka.Topic) -> None:
    reader = BulkReader(connection.address, [topic], {(topic.id, 0): 0}, columns=["offset"])
    try:
        # A consumer of librdkafka waits half a minute for an unknown topic before it reports it.
        assert not any(reader.read(most=3, wait_s=1).ends for _ in range(3))
    finally:
        reader.close()


def ask(connection: kafka.BrokerConnection, topic: kafka.Topic) -> None:
    kafka.describe(connection, [topic.name])
    kafka.configurations(connection, [topic.name])
    kafka.replicas(connection, [topic.name])
    for question in (kafka.ends, kafka.starts, kafka.newest_timestamps):
        with pytest.raises(kafka.NoBroker):
            question(connection, [topic])


@pytest.mark.slow
@pytest.mark.parametrize("client", [ask, sample, read_in_bulk, append, send], ids=lambda client: client.__name__)
def test_a_deleted_topic_stays_deleted(
    generous: kafka.BrokerConnection, client: Callable[[kafka.BrokerConnection, kafka.Topic], None]
) -> None:
    topic = deleted(generous)
    client(generous, topic)
    assert kafka.describe(generous, [topic.name]) == {}


@pytest.mark.slow
@pytest.mark.spark
def test_a_topic_that_is_deleted_while_spark_wants_its_records_stays_deleted(
    generous: kafka.BrokerConnection, spark: SparkSession
) -> None:
    topic = new_topic(generous, partitions=1)
    produce(generous, topic, [b"{}"] * 3, at=datetime(2026, 11, 1, tzinfo=UTC))
    failures: list[str] = []

    def process(batch: DataFrame, _: int) -> None:
        delete_topic(generous, topic.name)
        with pytest.raises(Py4JJavaError) as raised:
            batch.count()
        failures.append(str(raised.value))

    options = kafka_options(generous.address) | {"kafkaConsumer.pollTimeoutMs": "3000"}
    stream = spark.readStream.format("kafka").options(**options).option("subscribe", topic.name)
    query = stream.option("startingOffsets", "earliest").load().writeStream.foreachBatch(process).trigger(availableNow=True)
    query.start().awaitTermination()
    assert len(failures) == 1
    assert kafka.describe(generous, [topic.name]) == {}
