"""Rejects that new definitions can read count exactly once, below the cut and above it, over restarts of the layer."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.batch.runtime.session import BatchRun
from tandem.cli.records.redecode import decode_again
from tandem.infra import kafka
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import promotion
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.status.quarantine import rejects
from tandem.views.project.project import Project, load_files
from tests.speed.sales import answered, per_minute, project_files, running, settings_for, some, wait_for, wait_until_folded
from tests.stack import environ, new_topic, produce

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def without_shop(numbers: list[int]) -> list[bytes]:
    """Sales of shop a that do not name it: rejects of the first definitions."""
    sales = map(json.loads, some(numbers))
    return [json.dumps({name: value for name, value in sale.items() if name != "shop"}).encode() for sale in sales]


def test_a_reject_counts_once_wherever_it_is(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    """Some are sent twice: both below the cut, both above, and one on each side."""
    settings, topic = settings_for(broker, tmp_path), new_topic(broker, partitions=2)
    tables, files = Tables.of(settings), project_files(topic.name)
    read = files["definitions.py"].replace(b"    shop: str\n    amount: int\n", b'    amount: int\n    shop: str = "a"\n')
    new = load_files(files | {"definitions.py": read})

    def run(command: str) -> BatchRun:
        return BatchRun(settings, command, lambda: datetime.now(UTC), lambda _: None, environ())

    def old() -> Project:
        return load_files(files)

    good = [number for number in range(90) if number % 3]
    for partition in (0, 1):
        produce(broker, topic, some(good[partition::4]) + without_shop([0, 3 + partition * 3]), partition=partition)
    with running(spark, settings, topic):
        wait_until_folded(settings, broker, topic)
        write_archive.run(run("archive"), old)
        recompute.run(run("recompute"), old)
        for partition in (0, 1):
            produce(broker, topic, some(good[partition + 2 :: 4]) + without_shop([3, 9, 12 + partition * 3]), partition=partition)
        wait_until_folded(settings, broker, topic)
        write_archive.run(run("archive"), old)
        assert answered(settings) == per_minute(good)
        live = Publications(tables).latest()
        assert live is not None
        decoder = Releases(tables).load(live.release).sources["sales"]
        places = rejects(tables, "sales", decoder, limit=100).select(["topic_id", "partition", "offset", "index"])
        done = decode_again(tables, new.sources["sales"], zip(*(column.to_pylist() for column in places.columns), strict=True))
        assert (done.tried, len(done.numbers), done.rejects) == (10, 10, {})
        assert apply.run(run("apply"), lambda: new, Terms(max_lag=100)).release == 2
        for partition in (0, 1):  # above all that is archived
            produce(broker, topic, without_shop([3, 9, 18, 21 + partition * 3]), partition=partition)
    all_of_them = [*good, 0, 3, 6, 9, 12, 15, 18, 21, 24]
    with running(spark, settings, topic):
        wait_until_folded(settings, broker, topic, 2)
        at = datetime.now(UTC)
        promotion.promote(StandingReleases(tables), 2, days=7, max_lag=100, by="test", at=at)
        wait_for(lambda: answered(settings) == per_minute(all_of_them))
    write_archive.run(run("archive"), lambda: new)
    recompute.run(run("recompute"), lambda: new)
    assert answered(settings) == per_minute(all_of_them)
    assert rejects(tables, "sales", Releases(tables).load(2).sources["sales"], limit=100).num_rows == 0
