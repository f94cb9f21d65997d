"""On a real broker whose volume is restored from an older copy, and that then grows past what Tandem had read."""

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive as archiving
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings, SparkSettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.speed.hot.follow import HotFollower, RecordsLost
from tandem.views.project.project import load_files
from tests.speed.sales import Running, answered, folded, log_end, per_minute, project_files, running, some, wait_until_folded
from tests.stack import environ, produce

pytestmark = [pytest.mark.broker, pytest.mark.slow]  # the default suite has the same in one process


class OwnBroker:
    """An embedded broker whose data can be copied while it does not run, and restored."""

    def __init__(self, folder: Path) -> None:
        self.settings = Settings(
            state=str(folder), kafka=KafkaSettings(memory="256m", timeout_s=20), spark=SparkSettings(master="local[2]")
        )
        self.data, self.copy = folder / "broker" / "data", folder / "copy"
        self.start()

    def start(self) -> None:
        with background.starting(self.settings.folder):
            embedded.start(self.settings, environ=environ())
        self.connection = kafka.connect(embedded.address(self.settings))

    def stop(self) -> None:
        if process := background.running(self.settings.folder, embedded.NAME):
            background.stop(self.settings.folder, process, seconds=20)

    def save(self) -> None:
        """Copy the volume."""
        self.stop()
        shutil.copytree(self.data, self.copy)
        self.start()

    def restore(self) -> None:
        """Put the older copy of the volume in the place of the present one."""
        self.stop()
        shutil.rmtree(self.data)
        shutil.copytree(self.copy, self.data)
        self.start()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[OwnBroker]:
    broker = OwnBroker(tmp_path)
    try:
        yield broker
    finally:
        broker.stop()


def test_nobody_reads_on_in_a_log_that_was_cut_back(own: OwnBroker, spark: SparkSession) -> None:
    """The topic keeps its id, and ends above what was read: only its records tell."""
    settings = own.settings
    topic = kafka.create(own.connection, ["sales"], settings)["sales"]
    project = load_files(project_files("sales"))
    run = BatchRun(settings, "archive", lambda: datetime.now(UTC), lambda _: None, environ())
    produce(own.connection, topic, some(range(20)))
    own.save()
    produce(own.connection, topic, some(range(20, 50)))
    with running(spark, settings, topic):
        wait_until_folded(settings, own.connection, topic)
    archiving.run(run, lambda: project)
    produce(own.connection, topic, some(range(50, 60)))
    with running(spark, settings, topic):
        wait_until_folded(settings, own.connection, topic)
    reached = folded(settings)

    own.restore()
    assert kafka.topic(own.connection, "sales").id == topic.id
    produce(own.connection, topic, some(range(100, 160)))
    assert reached.at_or_below(log_end(own.connection, topic))

    layer = Running(settings)
    layer.start(spark, project)
    layer.join()
    says = (
        r"^partition 0 of topic 'sales' has another record at offset {}, where source 'sales' has read one: the log was cut back "
        r"and has grown again, .* nothing was read or deleted, .*`tandem archive --new-topic`$"
    )
    with pytest.raises(LogChanged, match=says.format(59)):
        raise layer.error or AssertionError("the speed layer has read on")
    with pytest.raises(LogChanged, match=says.format(49)):
        archiving.run(run, lambda: project)
    tables = Tables.of(settings)
    live = Publications(tables).latest()
    assert live is not None
    release = Releases(tables).load(live.release)
    definitions = load_files(release.files)
    source, views = definitions.sources["sales"], definitions.views
    hot = HotFollower(
        settings, tables, own.connection, release, source, views, now=lambda: datetime.now(UTC), send=lambda _: None
    )
    with pytest.raises(RecordsLost, match=says.format(59)):
        hot.begin()
    # Nothing was lost: what was counted stays, and no gap was recorded.
    assert folded(settings) == reached
    assert answered(settings) == per_minute(range(60))
    assert Gaps(tables).of("sales") == []
