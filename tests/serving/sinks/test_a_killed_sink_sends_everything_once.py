"""A Kafka sink whose process is killed in any phase, or whose broker is restarted, has sent each change once in the end."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tandem.infra import kafka
from tandem.infra.kafka import broker as embedded
from tandem.infra.process import background
from tandem.infra.settings import KafkaSettings, Settings
from tandem.serving.read.row_filter import RowsWanted
from tests.cli.run.test_sinks_run_together import process, wait_for
from tests.serving.sinks.test_a_compacted_topic_is_the_view_at_its_token import sink
from tests.serving.sinks.test_messages_in_a_topic_fold_to_the_query import send
from tests.serving.world import DEFINITIONS, World, hit
from tests.stack import consumed, environ, kafka_toml

pytestmark = [pytest.mark.broker, pytest.mark.slow]  # Each starts processes of `tandem sink`, and one a broker.


def project(folder: Path, broker: kafka.BrokerConnection, name: str, output: str) -> World:
    sinks = f'\nfrom tandem import Sink, kafka_topic\n\nout = Sink(per_page, to=kafka_topic("{name}"), output="{output}")\n'
    made = World(folder, definitions=DEFINITIONS + sinks)
    (folder / "tandem.toml").write_text(kafka_toml(broker))
    return made


def end_of(broker: kafka.BrokerConnection, name: str) -> int:
    """The number of records of a topic, committed or not, and of markers."""
    return sum(kafka.ends(broker, kafka.describe(broker, [name]).values(), committed=False).values())


@pytest.mark.parametrize("output", ["update", "append"])
def test_a_sink_that_is_killed_loses_and_repeats_nothing(broker: kafka.BrokerConnection, tmp_path: Path, output: str) -> None:
    name = f"killed-{output}"
    world = project(tmp_path, broker, name, output)
    for round_, phase in enumerate(("before", "between", "after", "between")):
        for partition in (0, 1):
            hours = range(-40 + 2 * round_, -37 + 2 * round_)
            world.append(partition, *(hit(page, hour + 50, minute=60 * hour) for hour in hours for page in ("/a", "/b", None)))
        world.trigger()
        start = end_of(broker, name)
        with process(world, ["tandem.cli", "sink", "out"]) as running:
            match phase:
                case "before":
                    wait_for(lambda: bool(kafka.describe(broker, [name])))
                case "between":
                    wait_for(lambda start=start: end_of(broker, name) > start)
                case "after":
                    assert running.stdout is not None
                    assert running.stdout.readline().startswith("wrote")
            running.kill()
            running.wait()
        if output == "update":
            sink(broker, world, name)
        else:
            send(broker, world, name, RowsWanted(output=output))


@contextmanager
def running_broker(settings: Settings) -> Iterator[kafka.BrokerConnection]:
    with background.starting(settings.folder):
        started = embedded.start(settings, environ=environ())
    try:
        yield kafka.connect(embedded.address(settings))
    finally:
        background.stop(settings.folder, started, seconds=20)


def test_a_broker_that_is_restarted_costs_the_sink_its_lag(tmp_path: Path) -> None:
    settings = Settings(state=str(tmp_path / "broker"), kafka=KafkaSettings(memory="320m", timeout_s=5))
    folder = tmp_path / "project"
    folder.mkdir()

    def content(broker: kafka.BrokerConnection) -> dict[str, int]:
        found = kafka.describe(broker, ["out"])
        records = consumed(broker, found["out"]) if found else []
        return {json.loads(record.key)["page"]: json.loads(record.value)["n"] for record in records}

    with running_broker(settings) as broker:
        world = project(folder, broker, "out", "update")
        world.append(0, hit("/a", 1))
        world.trigger()
    with process(world, ["tandem.cli", "sink"]):
        with running_broker(settings) as broker:
            wait_for(lambda: content(broker) == {"/a": 1})
        world.append(0, hit("/a", 1), hit("/b", 1))
        world.trigger()
        with running_broker(settings) as broker:
            wait_for(lambda: content(broker) == {"/a": 2, "/b": 1})
