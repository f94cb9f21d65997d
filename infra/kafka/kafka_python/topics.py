"""Topics by kafka-python: described, made, and how they are configured and replicated."""

import base64
import contextlib
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from kafka.admin import ConfigResource, ConfigResourceType, NewTopic
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from infra.kafka.errors import NoBroker, NoTopic
from infra.kafka.kafka_python.client import Connection, ask, refusal
from infra.kafka.kafka_python.offsets import starts
from infra.kafka.topic import Topic
from infra.settings import Settings

_ANY: Final = 2**63 - 1
_OWN_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
_READY_PAUSE_S: Final = 0.05


def describe(connection: Connection, names: Iterable[str]) -> dict[str, Topic]:
    """The topics of these names that exist; raises NoBroker if none answers in time."""
    return {
        name: Topic(name, _text(told["topic_id"]), len(told["partitions"]))
        for name, told in _described(connection, names).items()
    }


def topic(connection: Connection, name: str) -> Topic:
    """The topic of this name; raises NoTopic."""
    return topics(connection, [name])[0]


def topics(connection: Connection, names: Iterable[str]) -> tuple[Topic, ...]:
    """The topics of these names, in their order; raises NoTopic."""
    wanted = list(names)
    found = describe(connection, wanted)
    for name in wanted:
        if name not in found:
            raise NoTopic(f"topic '{name}' does not exist at {connection.address.bootstrap}; run `tandem up` to create it")
    return tuple(found[name] for name in wanted)


def create(
    connection: Connection,
    names: Iterable[str],
    settings: Settings,
    *,
    own_time: Collection[str] = (),
    ahead: timedelta | None = timedelta(hours=1),
) -> dict[str, Topic]:
    """Make the topics that do not exist yet, with the settings' partitions and retention; gives all of them, ready for use.

    Records of those in `own_time` get the time at which the log receives them, whatever their producers say. The others take
    records whose timestamp is at most `ahead` of the broker's clock; None takes all.
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


def configurations(connection: Connection, names: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """The configuration in effect of each of these topics, the broker's own defaults included. Raises NoBroker."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    told = ask(connection, "the topics' configuration", lambda: connection.admin.describe_configs(resources, config_filter="all"))
    return {
        name: {key: str(entry["value"]) for key, entry in entries.items()}
        for name, entries in told.get(ConfigResourceType.TOPIC.name.lower(), told.get("topic", {})).items()
    }


def replicas(connection: Connection, names: Iterable[str]) -> dict[str, int]:
    """How many copies each of these topics has at the least, of any partition. Raises NoBroker."""
    return {
        name: min(len(partition["replica_nodes"]) for partition in told["partitions"])
        for name, told in _described(connection, names).items()
    }


def _described(connection: Connection, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """What the broker says of the topics that it has, by name."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        return {}

    def question() -> dict[str, dict[str, Any]]:
        found = {}
        for told in connection.admin.describe_topics(wanted):
            error = for_code(told["error_code"])
            if told["error_code"] and error is not UnknownTopicOrPartitionError:
                raise error(f"topic '{told['name']}': {error.description}")
            if not told["error_code"]:
                found[told["name"]] = told
        return {name: found[name] for name in wanted if name in found}

    return ask(connection, "the topics", question)


def _create(connection: Connection, new: NewTopic) -> None:
    try:
        connection.admin.create_topics([new], timeout_ms=connection.address.timeout_s * 1000)
    except TopicAlreadyExistsError:
        return  # someone else was faster
    except KafkaError as error:
        # Whether it was made is not known where the answer is missing, and found out by whoever waits for it.
        if not error.retriable:
            raise refusal(connection, f"cannot create topic '{new.name}'", error) from None


def _settled(connection: Connection, names: list[str]) -> dict[str, Topic]:
    """A topic just made has no leaders for a moment; wait until its offsets can be read."""
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


def _text(topic_id: uuid.UUID | str) -> str:
    """A topic id as Kafka's own tools write it."""
    return base64.urlsafe_b64encode(uuid.UUID(str(topic_id)).bytes).decode("ascii").rstrip("=")
