"""A broker that denies by default: with the rights that docs/kafka.md lists, and a certificate, everything works."""

import random
from itertools import islice
from pathlib import Path

import pytest

from tandem.infra.settings import KafkaSettings
from tests.campaign import project
from tests.campaign.answers import oracle
from tests.campaign.cluster.cluster_project import ClusterProject, cluster_project, wait_for
from tests.infra.kafka.secured.brokers import Brokers, allow
from tests.infra.kafka.secured.rights import documented_rights

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

PRINCIPAL = "User:CN=tandem"
KEY_PASSWORD = "a key's password that no log has"
DENIED = "broker-right-missing"


def by_key(brokers: Brokers) -> KafkaSettings:
    return brokers.by_key(brokers.authority.sign("tandem", password=KEY_PASSWORD), password=KEY_PASSWORD)


def lines(start: int, end: int) -> list[bytes]:
    return [project.line(event) for event in islice(project.events(random.Random(7)), start, end)]


def whole(cluster: ClusterProject, way: str) -> bool:
    """Whether every view answers right, at the end of the log."""
    end = cluster.log.end()
    return all(cluster.comparer.reaches(end, way, view) for view in oracle.VIEWS)


def test_the_documented_rights_suffice_and_are_needed(tmp_path: Path) -> None:
    with cluster_project(tmp_path, by_key, count=1) as cluster:
        assert cluster.code_of("up") == DENIED
        rights = documented_rights(project.SOURCE)
        assert [right.name for right in rights] == [project.SOURCE] * 3 + ["tandem*"]
        allow(cluster.operator, PRINCIPAL, [right for right in rights if "WRITE" not in right.operations])
        cluster.run("up", "--serve")
        assert cluster.code_of("feed", "-", "--source", project.SOURCE, given=b"\n".join(lines(0, 1))) == DENIED
        allow(cluster.operator, PRINCIPAL, rights)
        cluster.run("feed", "-", "--source", project.SOURCE, given=b"\n".join(lines(0, 300)))
        assert len(cluster.server.send(project.SOURCE, lines(300, 340))) == 40
        wait_for(lambda: whole(cluster, "http"), "answers over HTTP at the end of the log")
        wait_for(lambda: whole(cluster, "query"), "answers from commits at the end of the log")
        assert cluster.tally.counts["comparisons before the commit"] > 0
        cluster.run("archive")
        cluster.run("recompute", "--mode", "full")
        assert whole(cluster, "query")
        cluster.run("status")
        doctor = {each["check"]: each for each in cluster.tandem.run("doctor").document["checks"]}
        for check in ("broker", "topics", "retention", "transactions", "timestamps"):
            assert doctor[check]["outcome"] == "ok", doctor[check]
        wait_for(lambda: any(str(group).find("tandem") >= 0 for group in cluster.operator.admin.list_groups()), "the group")
        assert not cluster.tally.findings, cluster.tally.evidence.read_text()
        for path in cluster.state.rglob("*"):
            if path.is_file():
                assert KEY_PASSWORD.encode() not in path.read_bytes(), path
