"""What sinks have stored, read without Tandem: a table as any engine reads it, a topic folded by key as any consumer does.

A sink is compared if its target has all rows of its view, or those of a condition that the project's generator repeats in plain
Python. The demo writes to no target of the project: its tables are in the demo's state, its topics at the demo's own broker.
"""

import base64
import json
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition
from deltalake import DeltaTable

from tandem.cli.command.call import Call
from tandem.cli.demo.checks.answers import Row
from tandem.infra.kafka import Address, broker
from tandem.infra.settings import Settings
from tandem.ledger.log.positions import Position
from tandem.serving.memory.changes_token import ChangesToken
from tandem.serving.sinks.definition import sinks_of
from tandem.serving.sinks.delta import METADATA
from tandem.views.errors import TandemError
from tandem.views.kernel.rows import to_rows
from tandem.views.sinks.delta_table import SinkTable
from tandem.views.sinks.kafka_topic import SinkTopic
from tandem.views.view import View, answer_schema
from tandem.views.windows.placement import WINDOW_STATE

SINKS_FOLDER: Final = "sinks"
"""The folder of the demo's state in which tables of sinks are."""

_MOST_RECORDS: Final = 10_000
_WAIT_S: Final = 0.1

Condition = Callable[[Row], bool]


@dataclass(frozen=True)
class ComparedSink:
    """A sink whose content is known from the expected answers: the rows of its view that `meets` accepts.

    `kind` is what its target is, for a person; `read` returns the rows there, None until its token counts a position.
    """

    view: View
    kind: str
    meets: Condition
    read: Callable[[Position], Sequence[Row] | None]


def comparable_sinks(call: Call, conditions: Mapping[str, Condition]) -> dict[str, ComparedSink]:
    """The sinks of a demo that can be compared, by name; `conditions` are those of the project's generator."""
    settings, compared = call.settings(), dict[str, ComparedSink]()
    for name, defined in sinks_of(call.definitions(), settings, call.project).items():
        sink, view = defined.sink, defined.view
        everything = not sink.keys and sink.where is None
        meets = _everything if everything else conditions.get(name)
        if meets is None or sink.output != "update":
            continue
        match sink.to:
            case SinkTable(address):
                compared[name] = ComparedSink(view, "table", meets, _Table(view, defined.folder / address))
            case SinkTopic(topic):
                compared[name] = ComparedSink(view, "topic", meets, _Topic(topic, settings))
    return compared


def _everything(_: Row) -> bool:
    return True


@dataclass(frozen=True)
class _Table:
    view: View
    folder: Path

    def __call__(self, end: Position) -> Sequence[Row] | None:
        return rows_of_table(self.view, self.folder, end)


@dataclass(frozen=True)
class _Topic:
    name: str
    settings: Settings

    def __call__(self, end: Position) -> Sequence[Row] | None:
        return rows_of_topic(broker.address(self.settings), self.name, end)


def rows_of_table(view: View, folder: Path, end: Position) -> list[Row] | None:
    """The rows of the newest version of a table; None until its token counts everything below a position."""
    if not DeltaTable.is_deltatable(str(folder)):
        return None
    table = DeltaTable(str(folder))
    if not _counts(table.history(1)[0].get(METADATA), end):
        return None
    columns = pa.schema([field for field in answer_schema(view) if field.name != WINDOW_STATE.name])
    return [*to_rows(view, pa.table(table.to_pyarrow_table()).select(columns.names).cast(columns))]


def rows_of_topic(address: Address, topic: str, end: Position) -> list[Row] | None:
    """The rows of a compacted topic, the newest committed record of each key; None until its token counts a position.

    A row has the keys and window of its record's key, whatever the value has. Raises TandemError if the broker does not answer.
    """
    options = {"bootstrap.servers": address.bootstrap, "log_level": 0, "error_cb": lambda _: None, **address.options}
    options |= {"group.id": f"tandem.sink.{topic}", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**options, "isolation.level": "read_committed"})
    try:
        there = consumer.list_topics(timeout=address.timeout_s).topics.get(topic)
        if there is None:
            return None
        stored = consumer.committed([TopicPartition(topic, number) for number in sorted(there.partitions)], address.timeout_s)
        if not _counts(_text("".join(each.metadata or "" for each in stored)), end):
            return None
        newest = _fold(consumer, topic, {each.partition: each.offset for each in stored}, address)
        return [{**json.loads(value), **json.loads(key)} for (_, key), value in newest.items()]
    except KafkaException as error:
        raise TandemError(f"topic {topic!r} cannot be read: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _fold(consumer: Consumer, topic: str, ends: Mapping[int, int], address: Address) -> dict[tuple[int, bytes], bytes]:
    """The newest value of each key of a partition, at least up to these ends; a tombstone deletes its key."""
    newest: dict[tuple[int, bytes], bytes] = {}
    left = {*ends}
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in ends])
    deadline = time.monotonic() + address.timeout_s
    while left:
        if time.monotonic() > deadline:
            raise TandemError(f"Kafka at {address.bootstrap} does not return the records of topic {topic!r}")
        for message in consumer.consume(_MOST_RECORDS, _WAIT_S):
            error, number, value = message.error(), message.partition(), message.value()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its name
                    raise KafkaException(error)
                # A transaction's marker may come a moment after the offsets that were committed with it.
                if message.offset() >= ends[number]:
                    left.discard(number)
            elif value is None:
                newest.pop((number, message.key()), None)
            else:
                newest[number, message.key()] = value
    return newest


def _text(packed: str) -> str | None:
    """The text in the metadata of a group's offsets."""
    return zlib.decompress(base64.b64decode(packed)).decode() if packed else None


def _counts(stamp: str | None, end: Position) -> bool:
    """Whether the token at the beginning of a stamp counts everything below a position."""
    return stamp is not None and end.at_or_below(ChangesToken.parse(stamp.partition(" ")[0]).position)
