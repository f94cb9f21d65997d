"""A project whose log is a topic of a real broker; the test plays its micro-batches and recomputes."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.ledger.log.positions import Position
from tandem.serving.connection import Connection
from tandem.serving.memory.store import MEMORY, Store
from tests.debezium.engine import comes, table_of
from tests.serving.world import World
from tests.stack import consumed, kafka_toml, new_topic

NEW_YEAR: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class BrokerWorld(World):
    """A world whose log is a topic of a real broker."""

    broker: Any = None
    topic: Any = None

    @property
    def end(self) -> Position:
        of = (self.broker, [self.topic])
        assert comes(lambda: kafka.ends(*of) == kafka.ends(*of, committed=False), 30), "transactions end after their commit"
        return Position.of(kafka.ends(*of))

    def records(self, start: Position, end: Position) -> pa.Table:
        rows = table_of(consumed(self.broker, self.topic), self.topic)
        inside = [
            start.get((self.topic.id, row["partition"]), 0) <= row["offset"] < end.get((self.topic.id, row["partition"]), 0)
            for row in rows.select(["partition", "offset"]).to_pylist()
        ]
        return rows.filter(pa.array(inside, pa.bool_()))

    def send(self, *records: tuple[bytes | None, bytes | None], minute: int = 0) -> None:
        """Records by key and value; a key's partition is that of its bytes."""
        at = int((NEW_YEAR + timedelta(minutes=minute)).timestamp() * 1000)
        with kafka.Sender(self.broker.address) as sender:
            for key, value in records:
                sender.send_as(self.topic.name, sum(key or b"") % 2, kafka.Record(at, key, value))

    def rows(self, table: str) -> dict[str, Any]:
        """The table's rows: a server's memory and its files have the same."""
        if self.end != self.writer.end:
            self.trigger()
        answers = []
        for memory in (MEMORY, 0):
            connection = Connection(Store(self.tables, 3, memory))
            connection.refresh()
            answers.append({row["sku"]: row["price"] for row in connection.view(table).rows()})
        assert answers[0] == answers[1]
        return answers[0]


def world_of(
    folder: Path, broker: kafka.BrokerConnection, definitions: str, source: str, topic: kafka.Topic | None = None
) -> BrokerWorld:
    """A project at the broker, whose definitions read TOPIC."""
    topic = topic or new_topic(broker)
    places = ((topic.id, 0), (topic.id, 1))
    text = definitions.replace("TOPIC", topic.name)
    world = BrokerWorld(folder, definitions=text, source=source, places=places, broker=broker, topic=topic)
    (folder / "tandem.toml").write_text(kafka_toml(broker))
    return world


def run_rebuild(capsys: pytest.CaptureFixture[str], world: BrokerWorld, table: str, *options: str) -> Any:
    """Run `tandem table rebuild`; its document, or its error."""
    capsys.readouterr()
    code = main(["table", "rebuild", table, *options, "--project", str(world.folder), "--json"])
    document = json.loads(capsys.readouterr().out)
    return document if code == 0 else document["error"]
