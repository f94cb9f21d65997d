"""A running speed layer has a pulse: of its loop through Java, and of each source's polls of the log, idle or not."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.infra import kafka
from tandem.infra.process import pulse
from tandem.infra.process.pulse import Pulse
from tests.speed.sales import running, settings_for, some, wait_for, wait_until_folded
from tests.stack import new_topic, produce

pytestmark = pytest.mark.broker


def test_an_idle_layer_and_a_busy_one_beat_and_poll(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)

    def now() -> Pulse:
        found = pulse.read(settings.folder, "speed")
        assert found is not None
        return found

    def looked() -> float:
        (loop,) = now().loops
        assert (loop.release, loop.source, loop.waits) == (1, "sales", "")
        return loop.looked or 0

    name, interval = "spark.sql.streaming.noDataProgressEventInterval", "500"
    before = spark.conf.get(name)
    spark.conf.set(name, interval)
    try:
        with running(spark, settings, topic):
            wait_for(lambda: looked() > 0)
            beat, look = now().at, looked()
            wait_for(lambda: now().at > beat and looked() > look, seconds=300)
            produce(broker, topic, some(range(20)))
            look = looked()
            wait_until_folded(settings, broker, topic)
            assert looked() > look
        assert now().loops == ()
    finally:
        spark.conf.set(name, str(before))
