"""The process of hot tails on a real broker: answers before any commit, and through restarts, kills and another topic."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.infra import folders, kafka
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.hot.feed import HotFeed
from tandem.ledger.log.positions import Position
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.speed.hot.process import HotProcess
from tests.speed.sales import (
    answered,
    folded,
    log_end,
    per_minute,
    project_files,
    running,
    settings_for,
    some,
    wait_for,
    wait_until_folded,
)
from tests.stack import environ, kafka_toml, new_topic, produce

pytestmark = pytest.mark.broker


@dataclass
class Server:
    """What a server has: the process, its feed, and views in memory."""

    settings: Settings
    folder: Path
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.feed = HotFeed(time.monotonic)
        self.process = HotProcess(self.folder, folders.child_environment(environ()), self.feed, self.said.append)
        self.connection = Connection(Store(Tables.of(self.settings), 1, hot=self.feed))

    def answers(self) -> dict[tuple[str, str], tuple[int, int]]:
        """What `per_minute` answers now."""
        self.connection.refresh()
        rows = self.connection.view("per_minute").rows()
        return {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows}

    @property
    def end(self) -> Position:
        """The position of the answers."""
        self.connection.refresh()
        return self.connection.snapshot().pinned.snapshot.positions["sales"]

    @property
    def follows(self) -> bool:
        """Whether the hot tail of the live release follows the log."""
        return any(state.aside is None for state in self.feed.statuses.values())


@contextmanager
def serving(settings: Settings, folder: Path, topic: kafka.Topic, toml: str) -> Iterator[Server]:
    """A server beside a project."""
    (folder / "definitions.py").write_bytes(project_files(topic.name)["definitions.py"])
    (folder / "tandem.toml").write_text(toml)
    server = Server(settings, folder)
    server.process.start()
    try:
        yield server
    finally:
        server.process.stop()


def test_answers_count_records_before_commits_and_the_same_after_them(
    broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path
) -> None:
    settings, topic = settings_for(broker, tmp_path / ".tandem"), new_topic(broker)
    produce(broker, topic, some([1, 2, 2]))
    numbers = [1, 2]
    with serving(settings, tmp_path, topic, kafka_toml(broker)) as server:
        with running(spark, settings, topic):
            wait_until_folded(settings, broker, topic)
            wait_for(lambda: server.follows)
            for start in range(3, 60, 7):
                chunk = [*range(start, start + 7), start - 1, 2]
                produce(broker, topic, [*some(chunk), b"not a sale"], partition=start % 2)
                numbers += chunk
                wait_for(lambda: server.end == log_end(broker, topic))
                assert server.answers() == per_minute(numbers)
            wait_until_folded(settings, broker, topic)
        # No speed layer runs: only the hot tail reads on.
        committed = folded(settings)
        produce(broker, topic, some([100, 101, 5, 100]))
        numbers += [100, 101]
        wait_for(lambda: server.end == log_end(broker, topic))
        assert folded(settings) == committed
        assert server.answers() == per_minute(numbers)
        assert server.connection.view("per_minute").now().provenance.hot is not None
        # Another process knows the identities that this one knew.
        assert server.process.pid is not None
        os.kill(server.process.pid, signal.SIGKILL)
        wait_for(lambda: not server.follows)
        produce(broker, topic, some([101, 1, 102]))
        numbers += [102]
        wait_for(lambda: server.end == log_end(broker, topic))
        assert server.answers() == per_minute(numbers)
        with running(spark, settings, topic):
            wait_until_folded(settings, broker, topic)
            wait_for(lambda: server.feed.compared > 0)
        assert answered(settings) == server.answers() == per_minute(numbers)
        assert server.feed.mismatched == 0
