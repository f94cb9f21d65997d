"""A release is followed beside the live one, promoted and rolled back while events arrive; a failing one ends alone."""

from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.release_plan import Terms
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import promotion
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.project.project import Project, load_files
from tests.speed.sales import (
    folded,
    log_end,
    project_files,
    running,
    settings_for,
    some,
    wait_for,
    wait_until_folded,
)
from tests.stack import environ, new_topic, produce

pytestmark = [pytest.mark.broker, pytest.mark.slow]

GOING_ON = "release {} is live; continuing with its definitions"


def run(settings: Settings, command: str) -> BatchRun:
    return BatchRun(settings, command, lambda: datetime.now(UTC), lambda _: None, environ())


def changed(topic: str) -> Project:
    """The same views, of sales whose number is even; their sums tell under which meaning they were made."""
    files = project_files(topic)
    text = files["definitions.py"].replace(b'keys={"shop": "shop"}', b'where="id % 2 = 0", keys={"shop": "shop"}')
    return load_files(files | {"definitions.py": text})


def expected(numbers: range, release: int) -> tuple[int, int]:
    chosen = [number for number in numbers if release == 1 or number % 2 == 0]
    return len(chosen), sum(chosen)


class Asking:
    """Asks without end, and checks of each answer that it is of one release, whole, and not a step back."""

    def __init__(self, settings: Settings) -> None:
        self.reader, self.stop = Reader(Tables.of(settings)), Event()
        self.answers, self.wrong = 0, list[str]()
        self.position, self.releases = Position(), list[int]()
        self.thread = Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self) -> None:
        try:
            while not self.stop.is_set():
                self.reader.refresh()
                answer = given(self.reader.answer("per_minute"))
                rows = answer.rows()
                snapshot = self.reader.snapshot()
                release, position = snapshot.publication.release, snapshot.positions["sales"]
                upto = sum(offset for _, offset in position.offsets)
                found = sum(row["n"] for row in rows), sum(row["sum"] for row in rows)
                if found != expected(range(upto), release):
                    self.wrong.append(f"{found} of {upto} under release {release}")
                if not self.position.at_or_below(position):
                    self.wrong.append(f"{position} after {self.position}")
                self.position, self.answers = position, self.answers + 1
                if self.releases[-1:] != [release]:
                    self.releases.append(release)
        except BaseException as error:  # noqa: BLE001 - for the test to look at
            self.wrong.append(repr(error))

    def end(self) -> None:
        self.stop.set()
        self.thread.join(60)
        assert self.wrong == []
        assert self.answers > 20


def test_a_release_goes_live_and_back_while_events_arrive(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    """One partition, in the order of the numbers: the position says what an answer must be."""
    settings, topic = settings_for(broker, tmp_path), new_topic(broker, partitions=1)
    tables, sent, stop = Tables.of(settings), count(), Event()

    def send(n: int) -> None:
        produce(broker, topic, some([next(sent) for _ in range(n)]))

    def flow() -> None:
        while not stop.wait(0.05):
            send(10)

    send(50)
    with running(spark, settings, topic) as layer:
        wait_until_folded(settings, broker, topic)
        write_archive.run(run(settings, "archive"), lambda: changed(topic.name))
        recompute.run(run(settings, "recompute"), lambda: changed(topic.name))
        asking, flowing = Asking(settings), Thread(target=flow, daemon=True)
        flowing.start()
        done = apply.run(run(settings, "apply"), lambda: changed(topic.name), Terms(max_lag=100))
        assert (done.release, dict(done.status)) == (2, {"per_minute": "changed", "per_shop": "changed"})

        def now(release: int | None, number: int | None = None) -> Publication:
            at = datetime.now(UTC)
            if number is not None:
                return promotion.rollback(StandingReleases(tables), number, days=7, keep=2, since=at, by="test", at=at)
            return promotion.promote(StandingReleases(tables), release, days=7, max_lag=10_000, by="test", at=at)

        def goes_on(releases: list[int]) -> None:
            """Readers and the layer both follow, each when it next looks."""
            wait_for(lambda: asking.releases == releases or bool(asking.wrong))
            wait_for(lambda: [said for said in layer.said if "is live" in said] == [GOING_ON.format(one) for one in releases[1:]])

        live = now(2)
        goes_on([1, 2])
        write_archive.run(run(settings, "archive"), lambda: changed(topic.name))
        moved = recompute.run(run(settings, "recompute"), lambda: changed(topic.name)).publication
        beside = StandingReleases(tables).state_of(1)
        assert beside is not None
        assert live.cut("sales") != moved.cut("sales")
        assert live.cut("sales") != beside.cut("sales")
        now(None, 2)
        goes_on([1, 2, 1])
        now(2)
        goes_on([1, 2, 1, 2])
        stop.set()
        flowing.join()
        wait_until_folded(settings, broker, topic, release=1)
        wait_until_folded(settings, broker, topic, release=2)
        wait_for(lambda: asking.position == log_end(broker, topic) or bool(asking.wrong))
        asking.end()
        promotion.retire(StandingReleases(tables), 1, by="test", at=datetime.now(UTC))
        reached = folded(settings, 1)
        send(10)
        wait_until_folded(settings, broker, topic, release=2)
    assert folded(settings, 1).at_or_below(log_end(broker, topic))
    assert reached.at_or_below(folded(settings, 1))


def test_a_release_that_cannot_be_followed_ends_alone(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    tables, nowhere = Tables.of(settings), load_files(project_files("no-such-topic"))
    with running(spark, settings, topic) as layer:
        produce(broker, topic, some(range(20)))
        wait_until_folded(settings, broker, topic)
        with pytest.raises(apply.CannotApply, match=r"release 2 is failed: .*no-such-topic"):
            apply.run(run(settings, "apply"), lambda: nowhere, Terms(max_lag=0))
        assert any("release 2, which is kept beside the live one, is no longer kept up to date" in said for said in layer.said)
        produce(broker, topic, some(range(20, 30)))
        wait_until_folded(settings, broker, topic)
    record = StandingReleases(tables).newest(2)
    assert record is not None
    assert record.stage == "failed"
