"""Three brokers over TLS, a user with a password and three replicas: no fault under load loses or duplicates a record."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tandem.infra import kafka
from tandem.infra.kafka.kafka_python.client import ask
from tests.campaign import project
from tests.campaign.campaign import compare_end, in_background
from tests.campaign.cluster.cluster_project import USER, ClusterProject, by_password, cluster_project, grant_all, wait_for

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(2400)]

NODES: Final = (1, 2, 3)
EVENTS: Final = 300
"""How many events are acknowledged between two faults."""
FOREIGN: Final = 10_000_000
"""The first number of events that another program sends."""
PAUSE_S: Final = 12.0
"""Longer than a broker's session, so that the cluster takes it for dead while it still runs."""
WITHOUT_S: Final = 8.0


def kill_one(cluster: ClusterProject) -> None:
    cluster.brokers.kill(1)
    cluster.wait_for_more(EVENTS)
    cluster.brokers.begin(1)


def pause_one(cluster: ClusterProject) -> None:
    cluster.brokers.freeze(2)
    until = time.monotonic() + PAUSE_S
    cluster.wait_for_more(EVENTS)
    time.sleep(max(0.0, until - time.monotonic()))
    cluster.brokers.unfreeze(2)


def roll_all(cluster: ClusterProject) -> None:
    for node in NODES:
        cluster.brokers.end(node)
        cluster.wait_for_more(EVENTS // 3)
        cluster.brokers.begin(node)
        wait_for(cluster.in_sync, f"node {node} to catch up")


def lose_two(cluster: ClusterProject) -> None:
    """The one broker left acknowledges nothing, because no other would have the record."""
    for node in NODES[1:]:
        cluster.brokers.kill(node)
    time.sleep(1)  # what was on its way has arrived or not
    before = len(cluster.feeder.acknowledged)
    time.sleep(WITHOUT_S)
    assert len(cluster.feeder.acknowledged) == before
    for node in NODES[1:]:
        cluster.brokers.begin(node)


def add_partition(cluster: ClusterProject) -> None:
    ask(cluster.operator, "a partition", lambda: cluster.operator.admin.create_partitions({project.SOURCE: 3}))
    wait_for(lambda: cluster.topic.partitions == 3, "the third partition")
    # Running producers learn of the partition only within minutes.
    with kafka.Sender(cluster.operator.address) as sender:
        for number in range(EVENTS):
            event = {"id": FOREIGN + number, "at": "2026-01-01T00:00:00+00:00", "shop": "shop 1", "amount": number % 100}
            sender.send_as(project.SOURCE, 2, kafka.Record(int(time.time() * 1000), None, project.line(event)))


FAULTS: Final[tuple[Callable[[ClusterProject], None], ...]] = (kill_one, pause_one, roll_all, lose_two, add_partition)


def test_every_acknowledged_record_is_counted_once(tmp_path: Path) -> None:
    with cluster_project(tmp_path, by_password, count=len(NODES)) as cluster:
        grant_all(cluster, f"User:{USER}")
        cluster.run("up", "--serve")
        topic = project.SOURCE
        assert kafka.replicas(cluster.operator, [topic]) == {topic: 3}
        assert kafka.configurations(cluster.operator, [topic])[topic]["min.insync.replicas"] == "2"
        with in_background(cluster.tally, cluster.feeder.run, cluster.comparer.run):
            cluster.wait_for_more(EVENTS)
            for fault in FAULTS:
                began = time.monotonic()
                cluster.tally.note("fault", fault=fault.__name__)
                fault(cluster)
                cluster.wait_for_more(EVENTS)
                wait_for(cluster.in_sync, f"all replicas to be in sync after {fault.__name__}")
                cluster.tally.note("over", fault=fault.__name__, took=round(time.monotonic() - began, 1))
        compare_end(cluster.steps, cluster.feeder, cluster.comparer, cluster.tally)
        cluster.tally.note("result", **cluster.tally.document(seed=0, minutes=0))
        assert cluster.tally.held, cluster.tally.document(seed=0, minutes=0)
        # Records came to the new partition, too.
        assert set(cluster.log.end()) == {0, 1, 2}
        assert all(cluster.log.end().values())
