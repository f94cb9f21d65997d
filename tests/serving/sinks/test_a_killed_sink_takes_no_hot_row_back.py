"""A Kafka sink with a hot tail, killed in any phase: each key's rows in its topic get newer, and none is there twice in a row."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.infra import kafka
from tests.cli.run.test_sinks_run_together import process_in
from tests.speed.sales import DEFINITIONS, folded, log_end, per_minute, running, settings_for, some, wait_for, wait_until_folded
from tests.stack import consumed, kafka_toml, new_topic, produce

pytestmark = [pytest.mark.broker, pytest.mark.slow]  # Spark, and six processes of `tandem sink` with their hot tails

SINK = '\nfrom tandem import Sink, kafka_topic\n\nout = Sink(per_minute, to=kafka_topic("hot-out"))\n'


def rows_by_key(broker: kafka.BrokerConnection) -> dict[bytes, list[tuple[int, int]]]:
    """The rows of each key in the sink's topic, in their order."""
    found: dict[bytes, list[tuple[int, int]]] = {}
    if topics := kafka.describe(broker, ["hot-out"]):
        for record in consumed(broker, topics["hot-out"]):
            assert record.value is not None, "no row of this view is ever gone"
            row = json.loads(record.value)
            found.setdefault(record.key, []).append((row["n"], row["sum"]))
    return found


def written(broker: kafka.BrokerConnection) -> int:
    """The number of records of the sink's topic, committed or not."""
    return sum(kafka.ends(broker, kafka.describe(broker, ["hot-out"]).values(), committed=False).values())


def content(broker: kafka.BrokerConnection) -> dict[tuple[str, str], tuple[int, int]]:
    keys = ((json.loads(key), rows[-1]) for key, rows in rows_by_key(broker).items())
    return {(key["window_start"], key["shop"]): row for key, row in keys}


def test_rows_before_a_commit_are_sent_once_and_never_taken_back(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path / ".tandem"), new_topic(broker)
    (tmp_path / "definitions.py").write_text(DEFINITIONS.format(topic=topic.name) + SINK)
    (tmp_path / "tandem.toml").write_text(kafka_toml(broker) + '\n[serving]\nhot = "on"\n')
    numbers = list(range(1, 20))
    produce(broker, topic, some(numbers))
    with running(spark, settings, topic):
        wait_until_folded(settings, broker, topic)

    def send(more: range) -> None:
        produce(broker, topic, [*some(more), *some(more)[:2]], partition=more.start % 2)
        numbers.extend(more)

    # No speed layer runs, so all of this is hot; each process finds a token of hot commits, or rows of a transaction cut off.
    for round_, phase in enumerate(("hot rows sent", "between", "between", "hot rows sent", "at once")):
        with process_in(tmp_path, ["tandem.cli", "sink"]) as sink:
            send(range(100 * round_ + 100, 100 * round_ + 130))
            if phase == "hot rows sent":
                wait_for(lambda: content(broker) == per_minute(numbers))
                assert folded(settings) != log_end(broker, topic)
            elif phase == "between":
                start = written(broker)
                wait_for(lambda start=start: written(broker) > start)
            sink.kill()
    with running(spark, settings, topic), process_in(tmp_path, ["tandem.cli", "sink"]):
        send(range(900, 930))
        wait_until_folded(settings, broker, topic)
        wait_for(lambda: content(broker) == per_minute(numbers))
    for key, rows in rows_by_key(broker).items():
        assert all(before < after for before, after in pairwise(rows)), key
