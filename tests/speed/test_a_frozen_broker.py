"""A broker that is frozen for a while ends nothing: the speed layer goes on by itself, and every record counts once."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import pytest
from pyspark.sql import SparkSession

from infra import broker as embedded
from infra import kafka, processes
from infra.settings import Kafka, Settings, Speed
from speed import progress
from tests.speed.sales import answered, per_minute, running, some, total, wait_for, wait_until_folded
from tests.stack import environ, produce, stack_settings

pytestmark = pytest.mark.broker


@contextmanager
def own(folder: Path) -> Iterator[tuple[kafka.Connection, int]]:
    """A broker that may be frozen, and its process id."""
    settings = Settings(state=str(folder), kafka=Kafka(memory="320m", timeout_s=5))
    with processes.starting(folder):
        process = embedded.start(settings, environ=environ())
    try:
        yield kafka.connect(embedded.address(settings)), process.pid
    finally:
        os.kill(process.pid, signal.SIGCONT)
        processes.stop(folder, process, seconds=20)


def frozen(pid: int, seconds: float) -> Timer:
    os.kill(pid, signal.SIGSTOP)
    timer = Timer(seconds, os.kill, (pid, signal.SIGCONT))
    timer.start()
    return timer


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [20, 75])
def test_the_speed_layer_outlives_a_frozen_broker(spark: SparkSession, tmp_path: Path, seconds: int) -> None:
    """Once between micro-batches and once among them; for longer than Spark's own client waits, status says what it waits for."""
    with own(tmp_path / "broker") as (connection, pid):
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
