"""An executor of a cluster is killed in the middle of a task of each kind: the run goes on elsewhere, and no answer changes."""

import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tandem.cli.demo.spark_cluster import Cluster
from tandem.infra import kafka
from tests.executors.gated_shop import PATIENCE_S, GatedShop, shop_with_gates, truth

if TYPE_CHECKING:
    import subprocess

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(2700)]


def test_no_answer_changes_when_an_executor_dies(shop: GatedShop) -> None:
    shop.sell(0, 60)
    children: list[subprocess.Popen[str]] = []

    def begin(*words: str) -> "subprocess.Popen[str]":
        children.append(shop.start(*words))
        return children[-1]

    with shop.an_executor_dies_at("decode", children):
        archive = begin("archive")
    assert shop.ended(archive)["sources"]["sales"]["events"] == 60
    with shop.an_executor_dies_at("fold", children):
        recompute = begin("recompute")
    shop.ended(recompute)
    assert shop.rows() == truth(60)

    shop.define("total", "maximum")
    with shop.an_executor_dies_at("fold", children):
        apply = begin("apply", "--max-lag", "60", "--auto-promote")
    shop.ended(apply)
    assert shop.rows() == {name: (n, 57 + int(name[-1])) for name, (n, _) in truth(60).items()}


def test_a_micro_batch_is_counted_once_when_its_executor_dies(shop: GatedShop) -> None:
    shop.sell(0, 30)
    with shop.an_executor_dies_at("fold", speed := []):
        speed.append(shop.start("speed"))
    try:
        shop.wait_for_rows(truth(30), speed[0])
    finally:
        speed[0].send_signal(signal.SIGINT)
        speed[0].communicate(timeout=300)


def test_a_run_without_any_executor_ends_with_a_sentence(
    cluster: Cluster, broker: kafka.BrokerConnection, tmp_path: Path
) -> None:
    shop = shop_with_gates(tmp_path, cluster.settings, broker)
    shop.sell(0, 10)
    shop.close("decode")
    archive = shop.start("archive", TANDEM_SPARK_EXECUTOR_WAIT_S="30")
    shop.until_wait("decode", archive)
    for worker in cluster.workers:
        worker.kill()
    _, said = archive.communicate(timeout=PATIENCE_S)
    assert archive.returncode == 1
    assert "no executor has been there for 30 s" in said
