"""A broker that is frozen for a while ends nothing: the speed layer continues, and every record counts once."""

import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.infra import kafka
from tandem.infra.settings import SpeedSettings
from tandem.speed import progress
from tests.frozen import frozen, own_broker
from tests.speed.sales import answered, per_minute, running, some, total, wait_for, wait_until_folded
from tests.stack import produce, stack_settings

pytestmark = pytest.mark.broker


MOST_S = 300


@pytest.mark.slow
@pytest.mark.parametrize(("seconds", "until_it_waits"), [(20, False), (75, True)])
def test_the_speed_layer_outlives_a_frozen_broker(
    spark: SparkSession, tmp_path: Path, seconds: int, *, until_it_waits: bool
) -> None:
    """Once between micro-batches and once among them; where Spark's own client has given up, status says what is waited for."""
    with own_broker(tmp_path / "broker") as (connection, pid):
        settings = stack_settings(connection, tmp_path / "project", speed=SpeedSettings(max_events=200))
        topic = kafka.create(connection, ["sales"], settings)["sales"]
        produce(connection, topic, some(range(100)))

        def waits() -> bool:
            found = progress.read(settings.folder)
            return bool(found and found.waiting)

        with running(spark, settings, topic) as layer:
            wait_until_folded(settings, connection, topic)
            frozen(pid, seconds).join()
            produce(connection, topic, some(range(50, 4000)))
            wait_for(lambda: total(settings, "events") > 300)
            thaw = frozen(pid, MOST_S if until_it_waits else seconds)
            if until_it_waits:
                wait_for(waits, seconds=MOST_S)
                thaw.cancel()
                os.kill(pid, signal.SIGCONT)
            thaw.join()
            produce(connection, topic, some(range(3900, 5000)), partition=1)
            wait_until_folded(settings, connection, topic)
            assert answered(settings) == per_minute(range(5000))
            assert total(settings, "events") == 5000
            assert not waits()
    assert not until_it_waits or any("waiting for the broker" in said for said in layer.said)
