"""A broker that is frozen for a while ends nothing: the speed layer goes on by itself, and every record counts once."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from infra import kafka
from infra.settings import Speed
from speed import progress
from tests.frozen import frozen, own_broker
from tests.speed.sales import answered, per_minute, running, some, total, wait_for, wait_until_folded
from tests.stack import produce, stack_settings

pytestmark = pytest.mark.broker


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [20, 75])
def test_the_speed_layer_outlives_a_frozen_broker(spark: SparkSession, tmp_path: Path, seconds: int) -> None:
    """Once between micro-batches and once among them; for longer than Spark's own client waits, status says what it waits for."""
    with own_broker(tmp_path / "broker") as (connection, pid):
        settings = stack_settings(connection, tmp_path / "project", speed=Speed(max_events=200))
        topic = kafka.create(connection, ["sales"], settings)["sales"]
        produce(connection, topic, some(range(100)))
        with running(spark, settings, topic) as layer:
            wait_until_folded(settings, connection, topic)
            frozen(pid, seconds).join()
            produce(connection, topic, some(range(50, 4000)))
            wait_for(lambda: total(settings, "events") > 300)
            thaw, waited = frozen(pid, seconds), False
            while thaw.is_alive():
                thaw.join(0.2)
                found = progress.read(settings.folder)
                waited = waited or bool(found and found.waiting)
            produce(connection, topic, some(range(3900, 5000)), partition=1)
            wait_until_folded(settings, connection, topic)
            assert answered(settings) == per_minute(range(5000))
            assert total(settings, "events") == 5000
            found = progress.read(settings.folder)
            assert not (found and found.waiting)
    if seconds > 60:
        assert waited
        assert any("waiting for the broker" in said for said in layer.said)
