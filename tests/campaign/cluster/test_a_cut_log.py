"""An unclean election cuts the log: commands report that, no record is lost silently, and the documented fix counts each once."""

import random
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final

import pytest
from kafka.admin import NewTopic

from tandem.infra import kafka
from tests.campaign import project
from tests.campaign.answers import oracle
from tests.campaign.answers.oracle import Sale
from tests.campaign.cluster.cluster_project import USER, ClusterProject, by_password, cluster_project, grant_all, wait_for
from tests.stack import delete_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

DRAWN: Final = [project.line(event) for event in islice(project.events(random.Random(5)), 900)]
KEPT, CUT, LATER = slice(0, 300), slice(300, 420), slice(420, 900)
"""Records that both replicas have, those that only the leader has, and those that the next leader gets."""
UNCLEAN: Final = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}


def send(cluster: ClusterProject, lines: Sequence[bytes]) -> None:
    """Append to the log as another program does."""
    with kafka.Sender(cluster.operator.address) as sender:
        for line in lines:
            sender.send(project.SOURCE, line)
    assert sender.acknowledged == len(lines)


def counts(cluster: ClusterProject, lines: Sequence[bytes]) -> bool:
    """Whether the view of all shops has exactly these events."""
    answer = cluster.tandem.run("query", "per_shop")
    sales = [sale for line in lines if isinstance(sale := oracle.parsed(line), Sale)]
    return answer.code == 0 and not oracle.difference(oracle.per_shop(sales, 0), answer.document["rows"])


def test_an_unclean_election_is_reported_and_the_fix_counts_each_record_once(tmp_path: Path) -> None:
    with cluster_project(tmp_path, by_password, count=3) as cluster:
        grant_all(cluster, f"User:{USER}")
        # Nodes 2 and 3 have the log; with node 1 either of them is a majority of the controllers.
        assignments = {0: [2, 3], 1: [2, 3]}
        cluster.operator.admin.create_topics([NewTopic(project.SOURCE, replica_assignments=assignments, topic_configs=UNCLEAN)])
        wait_for(lambda: cluster.in_sync() and cluster.leaders() == {2}, "the topic")
        send(cluster, DRAWN[KEPT])
        cluster.run("up")
        wait_for(partial(counts, cluster, DRAWN[KEPT]), "the speed layer to count what both have")
        cluster.brokers.kill(3)
        wait_for(lambda: not cluster.in_sync(), "node 2 to know that it is alone")
        send(cluster, DRAWN[CUT])
        wait_for(partial(counts, cluster, DRAWN[: CUT.stop]), "the speed layer to count what node 2 alone has")
        cluster.run("archive")

        cluster.brokers.kill(2)
        cluster.brokers.begin(3)
        wait_for(lambda: cluster.leaders() == {3}, "node 3 to be elected although it lacks records")
        assert sum(kafka.ends(cluster.operator, [cluster.topic]).values()) == len(DRAWN[KEPT])
        assert cluster.code_of("archive") == "log-changed"
        cluster.brokers.begin(2)
        wait_for(cluster.in_sync, "node 2 to drop what node 3 lacks")
        send(cluster, DRAWN[LATER])  # more than was cut, so that the offsets look right
        assert cluster.code_of("archive") == "log-changed"
        assert cluster.tandem.run("status").code != 0
        assert counts(cluster, DRAWN[: CUT.stop]), "nothing that was counted is lost, and no record of another log is counted"

        # The fix of docs/recover.md: the topic is created again, and its later records are sent again.
        cluster.run("down")
        # kafka-python 3.0.12 keeps the controller's number, also while its metadata lack that broker, and then raises.
        delete_topic(kafka.connect(cluster.operator.address), project.SOURCE)
        cluster.tandem.run("up")
        cluster.run("archive", "--new-topic")
        send(cluster, DRAWN[LATER])
        cluster.run("up")
        wait_for(partial(counts, cluster, DRAWN), "all events to be counted, each once")
        cluster.run("recompute", "--archive", "--mode", "full")
        assert counts(cluster, DRAWN)
