"""The speed layer on a real broker: whatever happens to it or to the log, answers count every event once."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from tandem.batch.archive import archive as archiving
from tandem.batch.recompute import recompute as recomputing
from tandem.batch.release import apply as applying
from tandem.batch.release.release_plan import Terms
from tandem.batch.runtime.session import BatchRun
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tandem.ledger import cuts
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import adoption, promotion
from tandem.ledger.publish.batch_parts import BatchView
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.tiling import chain
from tandem.ledger.realtime_writer import NewerEpoch
from tandem.serving.read.outcome import given
from tandem.serving.read.reader import Reader
from tandem.speed.source.start_position import OffsetsLost
from tandem.views.fingerprint.fingerprint import decoder_fingerprint, fingerprint
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


def test_of_two_layers_the_older_is_fenced(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    older = Running(settings)
    older.start(spark, load_files(project_files(topic.name)))
    produce(broker, topic, some(range(50)))
    with running(spark, settings, topic):
        produce(broker, topic, some(range(50, 100)), partition=1)
        older.join()
        assert isinstance(older.error, NewerEpoch)
        produce(broker, topic, some(range(100, 120)))
        wait_until_folded(settings, broker, topic)
        assert answered(settings) == per_minute(range(120))
    assert total(settings, "events") == 120


def test_the_layer_continues_after_a_bridge(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> None:
    settings, topic = settings_for(broker, tmp_path, trigger_ms=3000), new_topic(broker)
    with running(spark, settings, topic) as layer:
        produce(broker, topic, some(range(10)))
        wait_until_folded(settings, broker, topic)
        produce(broker, topic, some(range(10, 20)))
        end = log_end(broker, topic)
        cuts.bridge(Tables.of(settings), 1, "sales", to=end, by="test", at=datetime.now(UTC))
        # Copies of what was folded, and of what the bridge has gone past, too.
        produce(broker, topic, some(range(5, 30)))
        wait_until_folded(settings, broker, topic)
        assert [commit.kind for commit in commits(settings) if not commit.mark] == ["fold", "bridge", "fold"]
        assert layer.said == [f"source 'sales': another run has bridged the log; continuing from {end}"]
    assert (total(settings, "events"), total(settings, "duplicates")) == (20, 15)


def test_duplicates_of_events_below_a_bridge_are_recognized(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    """Also where nothing but the bridge says that there was anything before: no micro-batch, no publication but the first."""
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    tables, project = Tables.of(settings), load_files(project_files(topic.name))
    adoption.live(tables, lambda: project, by="test", at=datetime.now(UTC))
    produce(broker, topic, some(range(10)))
    cuts.bridge(tables, 1, "sales", to=log_end(broker, topic), by="test", at=datetime.now(UTC))
    with running(spark, settings, topic):
        produce(broker, topic, [*some(range(5, 15)), sale(7, seconds=49, amount=-7)])
        wait_until_folded(settings, broker, topic)
    assert (total(settings, "events"), total(settings, "duplicates"), total(settings, "conflicts")) == (5, 6, 1)


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


def test_duplicates_of_events_counted_before_a_restart_are_recognized(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    # Number 86 is of the first minute, which was over long before.
    for partition, numbers in ((0, range(30)), (1, range(15, 45)), (0, [*range(60), 86])):
        produce(broker, topic, some(numbers), partition=partition)
        with running(spark, settings, topic):
            wait_until_folded(settings, broker, topic)
    assert answered(settings) == per_minute([*range(60), 86])
    assert total(settings, "duplicates") == 60
    # So is the watermark: what came after it, and after the label that it gave, is counted, and its copies are not.
    answer = given(Reader(Tables.of(settings)).answer("per_minute"))
    assert answer.provenance.after_final == 1
    states = [row["window_state"] for row in answer.rows()]
    assert (states[0], states[-1]) == ("final", "open")
    per_shop = given(Reader(Tables.of(settings)).answer("per_shop"))
    assert (per_shop.provenance.after_final, {row["window_state"] for row in per_shop.rows()}) == (0, {"open"})


def test_duplicates_are_dropped_in_any_partition_and_micro_batch(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    """In a micro-batch, in another, after the cut, after a restart, in another release; beyond the dedup window by the batch.

    Everywhere some copies differ from their event, and both layers count as many conflicts.
    """
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    project, early = load_files(project_files(topic.name)), datetime.now(UTC) - timedelta(hours=2)
    conflicts = 0

    def send(numbers: Sequence[int], *, at: datetime | None = early, release: int = 1) -> None:
        """Copies, one of which has a content of its own, in both partitions; then wait until they are folded."""
        nonlocal conflicts
        for partition in (0, 1):
            conflicts += 1
            differing = sale(numbers[0], seconds=numbers[0] * 7 % 600, amount=-conflicts)
            produce(broker, topic, [*some(numbers), differing, *some(numbers), differing], partition=partition, at=at)
        wait_until_folded(settings, broker, topic, release)

    def run(command: str) -> BatchRun:
        return BatchRun(settings, command, lambda: datetime.now(UTC), lambda _: None, environ())

    def recompute() -> Publication:
        archiving.run(run("archive"), lambda: project)
        return recomputing.run(run("recompute"), lambda: project).publication

    with running(spark, settings, topic):
        produce(broker, topic, some(range(20)), at=early)
        send([0, 1])
        send([2, 1])
        live = recompute()
        assert live.cut("sales") == log_end(broker, topic)
        assert (live.counts["sales"].events, live.counts["sales"].conflicts, live.repaired) == (20, conflicts, {"sales": 0})
        send([3, 4])
        assert answered(settings) == per_minute(range(20))
    with running(spark, settings, topic) as layer:
        send([5, 4])
        assert answered(settings) == per_minute(range(20))
        assert (total(settings, "events"), total(settings, "conflicts")) == (20, conflicts)
        files = project_files(topic.name)
        project = load_files(files | {"definitions.py": files["definitions.py"].replace(b'"most": maximum', b'"top": maximum')})
        archiving.run(run("archive"), lambda: project)
        applying.run(run("apply"), lambda: project, Terms(max_lag=0))
        promotion.promote(StandingReleases(Tables.of(settings)), None, days=7, max_lag=0, by="test", at=datetime.now(UTC))
        send([6, 3], release=2)
        assert layer.said == ["release 2 is live; continuing with its definitions"]
        assert answered(settings) == per_minute(range(20))
        assert sum(commit.counts.events for commit in commits(settings, 2)) == 0

        # A timestamp of today among those of two hours ago evicts nothing; the layer's own time does.
        produce(broker, topic, some([20]))
        send([7, 2], release=2)
        assert answered(settings) == per_minute(range(21))
        layer.ahead = timedelta(minutes=11)
        produce(broker, topic, some(range(21, 121)))
        wait_until_folded(settings, broker, topic, release=2)
        produce(broker, topic, some(range(10)))
        wait_until_folded(settings, broker, topic, release=2)
        assert sum(n for n, _ in answered(settings).values()) == 121 + 10
        live = recompute()
        assert live.repaired == {"sales": 10}
        assert (live.counts["sales"].events, live.counts["sales"].conflicts) == (121, conflicts)
        assert answered(settings) == per_minute(range(121))


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


def test_the_layer_moves_to_the_release_that_is_published(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path), new_topic(broker)
    tables = Tables.of(settings)
    with running(spark, settings, topic) as layer:
        produce(broker, topic, some(range(10)))
        wait_until_folded(settings, broker, topic)
        files = project_files(topic.name)
        files["definitions.py"] = files["definitions.py"].replace(b"tumbling(minutes=1)", b"tumbling(hours=1)")
        publish(tables, files)
        wait_until_folded(settings, broker, topic, release=2)
        produce(broker, topic, some([11]))
        wait_until_folded(settings, broker, topic, release=2)
        assert {start for start, _ in answered(settings)} == {"2026-11-01T00:00:00Z"}
        assert sum(n for n, _ in answered(settings).values()) == 11
        assert layer.said == ["release 2 is live; continuing with its definitions"]


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


def publish(tables: Tables, files: dict[str, bytes]) -> None:
    """Publish the files as a release of their own, cut at the log's start."""
    project, now = load_files(files), datetime.now(UTC)
    release = Releases(tables).store(
        files,
        sources={name: decoder_fingerprint(source) for name, source in project.sources.items()},
        views={name: fingerprint(view) for name, view in project.views.items()},
        by="test",
        at=now,
    )
    views = {name: BatchView(value) for name, value in release.views.items()}
    candidate = Publication(0, 0, now, "test", "promote", release.number, {"sales": LOG_START}, views)
    Publications(tables).publish(lambda _: candidate)


def _length(commit: Commit) -> int:
    return sum(commit.end.values()) - sum(commit.start.values())
