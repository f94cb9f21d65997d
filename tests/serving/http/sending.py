"""A project whose sources select their records in different ways, served with a real broker, and its topics' content."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings
from tandem.views.decode import decode
from tandem.views.kernel.deduplicate import deduplicate
from tandem.views.source.source import RECORDS_SCHEMA, Source
from tests.serving.http.served import Served
from tests.serving.world import DEFINITIONS, World, hit

_SOURCES = """
hits = Source(topic="{hits}", event=Hit, event_time="moment", key="page")
keyed = Source(topic="{keyed}", event=Hit, event_time="moment", key="bytes", identity=("_idempotency_key",))
bundles = Source(topic=("{bundles}", "{others}"), event=Hit, event_time="moment",
    max_events_per_record=3, identity=("bytes", "_idempotency_key"))
told = Source(topic="{told}", event=Hit, event_time="moment", identity=("bytes",), identity_spans="any_time",
    record_filter=by_header("type", "order", "refund"))
cheap = Source(topic="{told}", event=Hit, event_time="moment", record_filter=by_field("price", "0.10"))
lines = Source(topic="{lines}", event=Hit, event_time="moment", decoder=csv(columns=("moment", "page", "bytes", "price")))
"""
_VIEWS = """
of_keyed = View(source=keyed, measures={"n": count()})
of_bundles = View(source=bundles, measures={"n": count()})
of_told = View(source=told, measures={"n": count()})

SOURCES = (hits, keyed, bundles, told, cheap, lines)
VIEWS = (of_keyed, of_bundles, of_told, """
NAMES = ("hits", "keyed", "bundles", "others", "told", "lines")


@dataclass(frozen=True)
class Log:
    """A broker's topics, by the names above."""

    connection: kafka.BrokerConnection
    topics: Mapping[str, kafka.Topic]

    @classmethod
    def made(cls, connection: kafka.BrokerConnection, prefix: str) -> "Log":
        found = kafka.create(connection, [f"{prefix}-{name}" for name in NAMES], Settings(kafka=KafkaSettings(partitions=2)))
        return cls(connection, {name: found[f"{prefix}-{name}"] for name in NAMES})

    def records(self, name: str) -> dict[tuple[int, int], kafka.Record]:
        """All records of a topic, by partition and offset."""
        topic = self.topics[name]
        starts = {(topic.id, number): 0 for number in range(topic.partitions)}
        found = kafka.records(self.connection, [topic], starts, most=10**6)
        return {(number, offset): one for (_, number), of in found.items() for offset, one in enumerate(of)}

    def ends(self) -> Mapping[tuple[str, int], int]:
        return kafka.ends(self.connection, self.topics.values())

    def counted(self, source: Source, name: str) -> tuple[int, int]:
        """How many records a topic has, and how many of their events count."""
        found = self.records(name)
        rows = [
            {
                "topic_id": self.topics[name].id,
                "partition": number,
                "offset": offset,
                "timestamp": one.milliseconds * 1000,
                "timestamp_type": 0,
                "key": one.key,
                "value": one.value,
                "headers": [{"key": key, "value": value} for key, value in one.headers],
            }
            for (number, offset), one in found.items()
        ]
        decoded = decode(source, pa.Table.from_pylist(rows, schema=RECORDS_SCHEMA))
        assert not decoded.rejects.num_rows
        return len(found), deduplicate(source, decoded.events).events.num_rows


def served(folder: Path, log: Log, kafka_: KafkaSettings, change: dict[str, Any] | None = None) -> Served:
    """A server of the project; the broker is the one of the settings."""
    names = {name: topic.name for name, topic in log.topics.items()}
    definitions = DEFINITIONS.replace('hits = Source(topic="hits", event=Hit, event_time="moment")\n', _SOURCES.format(**names))
    definitions = definitions.replace("View, count", "View, by_field, by_header, count, csv")
    definitions = definitions.replace("SOURCES = (hits,)\nVIEWS = (", _VIEWS)
    world = World(folder, definitions=definitions)
    world.append(0, hit("/a", 1))
    world.trigger()
    return Served(world, change or {}, kafka_)


def ndjson(values: Sequence[bytes]) -> dict[str, Any]:
    """What a client sends of many records."""
    return {"content": b"".join(value + b"\n" for value in values), "headers": {"Content-Type": "application/x-ndjson"}}
