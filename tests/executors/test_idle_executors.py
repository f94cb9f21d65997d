"""Dynamic allocation on real clusters: executors go when they are idle and come back under load, and answers are exact."""

import signal
import time
from dataclasses import replace

import pytest

from tests.executors.gated_shop import PATIENCE_S, GatedShop, truth

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(2700)]

MANY = 240_000
"""As many events as make two tasks of a fold."""
IDLE = {"TANDEM_SPARK_EXECUTOR_IDLE_S": "3", "TANDEM_SPEED_CORES_MAX": "2"}


@pytest.fixture
def idle(shop: GatedShop) -> GatedShop:
    return replace(shop, settings={**shop.settings, **IDLE})


def test_the_speed_layers_executors_go_and_come_back(idle: GatedShop) -> None:
    idle.sell(0, 30)
    idle.close("fold")
    speed = idle.start("speed")
    try:
        # A task waits on the one executor, and the other task for a second one.
        idle.until_wait("fold", speed, executors=2)
        idle.open("fold")
        idle.wait_for_rows(truth(30), speed)
        deadline = time.monotonic() + PATIENCE_S
        while (number := idle.executors()) != 1:
            assert speed.poll() is None, speed.communicate()[1]
            assert time.monotonic() < deadline, number
            time.sleep(0.2)
        # A micro-batch of one task waits, so that the next one has a task for each partition.
        idle.close("fold")
        idle.sell(30, 31)
        idle.until_wait("fold", speed)
        idle.sell(31, 60)
        idle.close("decode")
        idle.open("fold")
        idle.until_wait("decode", speed, executors=2)
        idle.open("decode")
        idle.wait_for_rows(truth(60), speed)
    finally:
        speed.send_signal(signal.SIGINT)
        speed.communicate(timeout=300)


def test_a_batch_run_gets_executors_for_its_tasks(idle: GatedShop) -> None:
    idle.sell(0, MANY)
    assert idle.ended(idle.start("archive"))["sources"]["sales"]["events"] == MANY
    idle.close("fold")
    recompute = idle.start("recompute")
    idle.until_wait("fold", recompute, executors=2)
    idle.open("fold")
    idle.ended(recompute)
    assert idle.rows() == truth(MANY)
