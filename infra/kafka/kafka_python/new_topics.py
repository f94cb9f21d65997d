"""Topics created by kafka-python."""

import contextlib
import time
from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final

from kafka.admin import NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError

from tandem.infra.kafka.described_topic import Topic
from tandem.infra.kafka.errors import NoBroker
from tandem.infra.kafka.kafka_python.client import BrokerConnection, refusal
from tandem.infra.kafka.kafka_python.offsets import starts
from tandem.infra.kafka.kafka_python.topics import describe
from tandem.infra.settings import Settings

_ANY: Final = 2**63 - 1
_OWN_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
_READY_PAUSE_S: Final = 0.05


def create(
    connection: BrokerConnection,
    names: Iterable[str],
    settings: Settings,
    *,
    own_time: Collection[str] = (),
    ahead: timedelta | None = timedelta(hours=1),
) -> dict[str, Topic]:
    """Create the topics that do not exist yet, with the settings' partitions and retention. Returns all of them, ready for use.

    Records of topics in `own_time` get the time at which the log receives them, whatever their producers set. The other topics
    accept records whose timestamp is at most `ahead` of the broker's clock; with None any timestamp.
    """
    wanted = list(names)
    existing = describe(connection, wanted)
    kafka = settings.kafka
    most = _ANY if ahead is None else ahead // timedelta(milliseconds=1)
    common = {"retention.ms": str(kafka.retention_hours * 3_600_000 or -1), "message.timestamp.after.max.ms": str(most)}
    for name in dict.fromkeys(wanted):
        if name not in existing:
            new = NewTopic(
                name,
                kafka.partitions,
                kafka.replication if kafka.bootstrap else 1,
                topic_configs=common | (_OWN_TIME if name in own_time else {}),
            )
            _create(connection, new)
    return _settled(connection, wanted) if len(existing) < len(set(wanted)) else existing


def _create(connection: BrokerConnection, new: NewTopic) -> None:
    try:
        connection.admin.create_topics([new], timeout_ms=connection.address.timeout_s * 1000)
    except TopicAlreadyExistsError:
        return  # another process created it first
    except KafkaError as error:
        # Without an answer it is unknown whether the topic was created; the wait below finds out.
        if not error.retriable:
            raise refusal(connection, f"cannot create topic '{new.name}'", error) from None


def _settled(connection: BrokerConnection, names: list[str]) -> dict[str, Topic]:
    """A new topic has no leaders at first; wait until its offsets can be read."""
    deadline = time.monotonic() + connection.address.timeout_s
    while True:
        topics = describe(connection, names)
        with contextlib.suppress(NoBroker):
            if len(topics) == len(set(names)):
                starts(connection, topics.values())
                return topics
        if time.monotonic() > deadline:
            missing = ", ".join(name for name in names if name not in topics) or ", ".join(names)
            raise NoBroker(f"topics {missing} at {connection.address.bootstrap} did not become ready")
        time.sleep(_READY_PAUSE_S)
