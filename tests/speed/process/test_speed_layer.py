"""The speed layer on a real broker: whatever happens to it or to the log, answers count every event once."""

import random
from datetime import UTC, datetime
from pathlib import Path
from time import sleep

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive as archiving
from tandem.batch.release import apply as applying
from tandem.batch.release.release_plan import Terms
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.tiling import chain
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.speed.source.start_position import OffsetsLost
from tandem.views.project.project import load_files
from tests.speed.sales import (
    Running,
    answered,
    commits,
    folded,
    log_end,
    per_minute,
    project_files,
    running,
    sale,
    settings_for,
    some,
    total,
    wait_for,
    wait_until_folded,
)
from tests.stack import add_partitions, delete_below, delete_topic, environ, librdkafka, new_topic, produce

pytestmark = pytest.mark.broker


def test_answers_follow_the_log_and_a_restart(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    """Random chunks of out-of-order sales with copies and bad records, in whatever micro-batches Spark makes of them."""
    dice = random.Random(11)
    settings, topic = settings_for(broker, tmp_path, compact_every=4), new_topic(broker)
    numbers: list[int] = []
    produce(broker, topic, some([1, 2, 2]))
    numbers += [1, 2]
    for _ in range(2):
        with running(spark, settings, topic):
            for _ in range(6):
                chunk = [dice.randrange(400) for _ in range(dice.randrange(1, 40))]
                values = [*some(chunk), b"not a sale"]
                dice.shuffle(values)
                produce(broker, topic, values, partition=dice.randrange(2))
                numbers += chunk
                sleep(dice.random() * 0.4)
            wait_until_folded(settings, broker, topic)
            assert answered(settings) == per_minute(numbers)
    whole = chain(commits(settings), LOG_START)
    assert whole.problem is None
    assert whole.end == log_end(broker, topic)
    assert sum(commit.counts.quarantined.get("json", 0) for commit in whole.commits) == 12
    assert total(settings, "events") == len(set(numbers))


def test_transaction_markers_and_aborted_records_are_holes(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker, partitions=1)
    producer = Producer({**librdkafka(broker), "transactional.id": topic.name})
    producer.init_transactions()
    with running(spark, settings, topic):
        for numbers, commit in (([1, 2], True), ([3, 4, 5], False), ([6], True)):
            producer.begin_transaction()
            for value in some(numbers):
                producer.produce(topic.name, value, partition=0)
            producer.flush()
            producer.commit_transaction() if commit else producer.abort_transaction()
        wait_until_folded(settings, broker, topic)
        assert answered(settings) == per_minute([1, 2, 6])
    # Three records of the aborted transaction, and the markers that end all three.
    assert (total(settings, "events"), total(settings, "holes")) == (3, 6)


def test_records_that_the_log_lost_are_read_from_the_archive(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path, max_events=20), new_topic(broker)
    project = load_files(project_files(topic.name))
    produce(broker, topic, some(range(50)))
    produce(broker, topic, some(range(50, 60)), partition=1)
    run = BatchRun(settings, "archive", lambda: datetime.now(UTC), lambda _: None, environ())
    archiving.run(run, lambda: project)
    produce(broker, topic, some(range(40, 80)))
    delete_below(broker, topic, {0: 45, 1: 10})
    with running(spark, settings, topic):
        wait_until_folded(settings, broker, topic)
        assert answered(settings) == per_minute(range(80))
    assert total(settings, "duplicates") == 20
    assert max(_length(commit) for commit in commits(settings)) <= 20
    produce(broker, topic, some(range(80, 90)))
    delete_below(broker, topic, {0: 95})
    stopped = Running(settings)
    stopped.start(spark, project)
    stopped.join()
    assert isinstance(stopped.error, OffsetsLost)
    assert "offsets 90 to 94 of partition 0" in str(stopped.error)


@pytest.mark.slow
def test_a_recreated_topic_ends_the_layer(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    produce(broker, topic, some(range(10)))
    layer = Running(settings)
    layer.start(spark, load_files(project_files(topic.name)))
    wait_until_folded(settings, broker, topic)
    delete_topic(broker, topic.name)
    kafka.create(broker, [topic.name], settings)
    layer.join()
    assert isinstance(layer.error, LogChanged | kafka.NoTopic)
    assert total(settings, "events") == 10
    project = load_files(project_files(topic.name))
    again = Running(settings)
    again.start(spark, project)
    again.join()
    assert "`tandem archive --new-topic` continues with this topic" in str(again.error)
    anew = kafka.topic(broker, topic.name)
    produce(broker, anew, some(range(10, 15)))
    run = BatchRun(settings, "archive", lambda: datetime.now(UTC), lambda _: None, environ())
    archiving.run(run, lambda: project, new_topic=True)
    with running(spark, settings, anew):
        wait_for(lambda: total(settings, "events") == 15)


@pytest.mark.slow
def test_a_release_that_cannot_be_followed_ends_alone(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    tables, nowhere = Tables.of(settings), load_files(project_files("no-such-topic"))
    run = BatchRun(settings, "apply", lambda: datetime.now(UTC), lambda _: None, environ())
    with running(spark, settings, topic) as layer:
        produce(broker, topic, some(range(20)))
        wait_until_folded(settings, broker, topic)
        with pytest.raises(applying.CannotApply, match=r"release 2 is failed: .*no-such-topic"):
            applying.run(run, lambda: nowhere, Terms(max_lag=0))
        assert any("release 2, which is kept beside the live one, is no longer kept up to date" in said for said in layer.said)
        produce(broker, topic, some(range(20, 30)))
        wait_until_folded(settings, broker, topic)
    record = StandingReleases(tables).newest(2)
    assert record is not None
    assert record.stage == "failed"


@pytest.mark.slow
def test_two_topics_are_followed_as_one_log(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    """Copies across topics are found within micro-batches, across them and after a restart; a topic made anew is named."""
    settings, first, second = settings_for(broker, tmp_path), new_topic(broker), new_topic(broker, partitions=3)
    files = project_files("TOPICS")
    files["definitions.py"] = files["definitions.py"].replace(b'"TOPICS"', repr((first.name, second.name)).encode())
    project, ended = load_files(files), lambda: Position.of(kafka.ends(broker, [first, second]))
    for start in (0, 100):
        produce(broker, first, some(range(start, start + 40)))
        produce(broker, second, some(range(start + 30, start + 60)), partition=2)
        layer = Running(settings)
        layer.start(spark, project)
        produce(broker, second, some(range(start, start + 80)), partition=1)
        wait_for(lambda: folded(settings) == ended())
        layer.stop.set()
        layer.join()
        assert layer.error is None
    assert answered(settings) == per_minute([*range(80), *range(100, 180)])
    assert total(settings, "duplicates") == 2 * 70
    delete_topic(broker, second.name)
    kafka.create(broker, [second.name], settings)
    layer = Running(settings)
    layer.start(spark, project)
    layer.join()
    assert f"topic '{second.name}' was deleted and created again" in str(layer.error)


def test_one_topic_is_followed_by_two_sources(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    files = project_files(topic.name)
    for old, new in (
        ("count, ", "by_field, count, "),
        ('identity=("id",)', 'identity=("id",), record_filter=by_field("shop", "a")'),
        ("SOURCES = (sales,)", "SOURCES = (sales, rest)"),
        ("VIEWS = (", "VIEWS = (rest_n, "),
        (
            "per_shop =",
            (
                f'rest = Source(topic="{topic.name}", event=Sale, event_time="at", record_filter=by_field("shop", "b", "c"))\n'
                'rest_n = View(source=rest, measures={"n": count()})\nper_shop ='
            ),
        ),
    ):
        files["definitions.py"] = files["definitions.py"].replace(old.encode(), new.encode())
    layer = Running(settings)
    layer.start(spark, load_files(files))
    produce(broker, topic, [*some(range(90)), *some(range(30)), b"no sale", b"{}"])
    wait_for(lambda: folded(settings) == log_end(broker, topic))
    reader = Reader(Tables.of(settings))

    def rest() -> list[int]:
        reader.refresh()
        return [row["n"] for row in given(reader.answer("rest_n")).rows()]

    wait_for(lambda: rest() == [80])
    layer.stop.set()
    layer.join()
    assert layer.error is None
    assert answered(settings) == {key: n for key, n in per_minute(range(90)).items() if key[1] == "a"}
    assert [total(settings, what) for what in ("events", "duplicates", "others", "holes")] == [30, 10, 80, 0]


@pytest.mark.slow
def test_partitions_that_are_added_are_followed(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker, partitions=1)
    with running(spark, settings, topic):
        produce(broker, topic, some(range(10)))
        topic = add_partitions(broker, topic, 3)
        produce(broker, topic, some(range(10, 30)), partition=2)
        produce(broker, topic, some(range(20, 40)), partition=1)
        wait_until_folded(settings, broker, topic)
        assert answered(settings) == per_minute(range(40))
    with running(spark, settings, topic):
        produce(broker, topic, some([41]), partition=2)
        wait_until_folded(settings, broker, topic)
    assert answered(settings) == per_minute([*range(40), 41])


def test_a_table_that_cannot_be_written_ends_the_layer_in_a_sentence(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    layer = Running(settings)
    layer.start(spark, load_files(project_files(topic.name)))
    table = Path(Tables.of(settings).realtime(1, "sales"))
    table.rename(table.with_name("aside"))
    table.write_text("in the way")
    produce(broker, topic, [sale(1)])
    layer.join()
    assert str(table) in str(layer.error)
    table.unlink()
    table.with_name("aside").rename(table)
    with running(spark, settings, topic):
        wait_until_folded(settings, broker, topic)
    assert answered(settings) == {("2026-11-01T00:00:00Z", "a"): (1, 1)}


def test_without_a_broker_there_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    layer = Running(Settings(state=str(tmp_path)))
    layer.start(spark, load_files(project_files()))
    assert isinstance(layer.error, kafka.NoBroker)


def _length(commit: Commit) -> int:
    return sum(commit.end.values()) - sum(commit.start.values())
