"""Topics by kafka-python: which exist, how they are configured, their offsets, and new ones; and the logins of a broker."""

import base64
import contextlib
import time
import uuid
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from kafka import IsolationLevel, TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    NewTopic,
    OffsetSpec,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.errors import KafkaError, TopicAlreadyExistsError, UnknownTopicOrPartitionError, for_code

from tandem.infra.kafka.contract import BrokerRefused, NoBroker, NoTopic, Topic
from tandem.infra.kafka.kafka_python.client import BrokerConnection, ask, refusal
from tandem.infra.settings import Settings
from tandem.views.source.offset_ranges import Offsets
from tandem.views.topic_names import TopicPattern

_ANY: Final = 2**63 - 1
_OWN_TIME: Final = {"message.timestamp.type": "LogAppendTime"}
_READY_PAUSE_S: Final = 0.05
_MOST_COPIES: Final = 3
_ITERATIONS: Final = 4096
"""The least that Kafka accepts: more would only protect a password that a person can remember."""


def brokers(connection: BrokerConnection) -> int:
    """The number of brokers that the cluster has now. Raises NoBroker."""
    return len(ask(connection, "the brokers", connection.admin.describe_cluster)["brokers"])


def describe(connection: BrokerConnection, names: Iterable[str]) -> dict[str, Topic]:
    """The topics of these names that exist; raises NoBroker if none answers in time."""
    return {
        name: Topic(name, _text(told["topic_id"]), len(told["partitions"]))
        for name, told in _described(connection, names).items()
    }


def topic(connection: BrokerConnection, name: str) -> Topic:
    """The topic of this name; raises NoTopic."""
    return topics(connection, [name])[0]


def topics(connection: BrokerConnection, names: Iterable[str]) -> tuple[Topic, ...]:
    """The topics of these names, in their order; raises NoTopic."""
    wanted = list(names)
    found = describe(connection, wanted)
    for name in wanted:
        if name not in found:
            raise NoTopic(f"topic '{name}' does not exist at {connection.address.bootstrap}; run `tandem up` to create it")
    return tuple(found[name] for name in wanted)


def matching(connection: BrokerConnection, pattern: TopicPattern) -> tuple[Topic, ...]:
    """The topics whose names match now, of those that the user may describe, in the order of their names. Raises NoBroker."""
    names = ask(connection, "the names of all topics", connection.admin.list_topics)
    return tuple(describe(connection, sorted(filter(pattern.matches, names))).values())


def configurations(connection: BrokerConnection, names: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """The configuration in effect of each of these topics, the broker's own defaults included. Raises NoBroker."""
    resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
    if not resources:
        return {}
    told = ask(connection, "the topics' configuration", lambda: connection.admin.describe_configs(resources, config_filter="all"))
    return {
        name: {key: str(entry["value"]) for key, entry in entries.items()}
        for name, entries in told.get(ConfigResourceType.TOPIC.name.lower(), told.get("topic", {})).items()
    }


def replicas(connection: BrokerConnection, names: Iterable[str]) -> dict[str, int]:
    """The least number of replicas of any partition of each of these topics. Raises NoBroker."""
    return {
        name: min(len(partition["replica_nodes"]) for partition in told["partitions"])
        for name, told in _described(connection, names).items()
    }


def _described(connection: BrokerConnection, names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The broker's descriptions of its topics, by name."""
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


def _text(topic_id: uuid.UUID | str) -> str:
    """A topic id in the form of Kafka's own tools."""
    return base64.urlsafe_b64encode(uuid.UUID(str(topic_id)).bytes).decode("ascii").rstrip("=")


def starts(connection: BrokerConnection, topics: Iterable[Topic]) -> Offsets:
    """The first offset that each partition still has. Raises NoBroker, NoTopic if a topic was deleted since it was described."""
    return _offsets(connection, topics, OffsetSpec.EARLIEST)


def ends(connection: BrokerConnection, topics: Iterable[Topic], *, committed: bool = True) -> Offsets:
    """The offset after the last that a reader of committed records may read, of each partition; or after the last record at all.

    Raises NoBroker, NoTopic if a topic was deleted since it was described.
    """
    return _offsets(connection, topics, OffsetSpec.LATEST, committed=committed)


def first_at(connection: BrokerConnection, topics: Iterable[Topic], milliseconds: int) -> Offsets:
    """The first offset with a timestamp at or after a time, in milliseconds since 1970; partitions without one are left out.

    Raises NoBroker, NoTopic if a topic was deleted since it was described.
    """
    return {place: offset for place, offset in _offsets(connection, topics, milliseconds).items() if offset >= 0}


def newest_timestamps(connection: BrokerConnection, topics: Iterable[Topic]) -> dict[str, int]:
    """The newest timestamp of each of these topics that has records, by name, in milliseconds since 1970. Raises NoBroker."""
    wanted = dict.fromkeys(_places(topics), OffsetSpec.MAX_TIMESTAMP)
    if not wanted:
        return {}
    found: dict[str, int] = {}
    told = ask(connection, "the log's timestamps", lambda: connection.admin.list_partition_offsets(wanted))
    for place, at in told.items():
        if at.timestamp >= 0:
            found[place.topic] = max(at.timestamp, found.get(place.topic, 0))
    return found


def delete_before(connection: BrokerConnection, topics: Iterable[Topic], offsets: Offsets) -> None:
    """Delete the records below these offsets, as retention does: each partition then starts there. Raises NoBroker."""
    names = {topic.id: topic.name for topic in topics}
    wanted = {TopicPartition(names[topic], number): offset for (topic, number), offset in offsets.items()}
    ask(connection, "records to delete", lambda: connection.admin.delete_records(wanted))


def _offsets(connection: BrokerConnection, topics: Iterable[Topic], spec: int, *, committed: bool = True) -> Offsets:
    described = list(topics)
    ids = {topic.name: topic.id for topic in described}
    wanted = dict.fromkeys(_places(described), spec)
    if not wanted:
        return {}
    told = ask(
        connection,
        "the log's offsets",
        lambda: connection.admin.list_partition_offsets(
            wanted, isolation_level=IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        ),
    )
    # Kafka answers by a topic's name, so the name must still have the same id afterwards.
    now = describe(connection, ids)
    for name, id_ in ids.items():
        if name not in now or now[name].id != id_:
            raise NoTopic(f"topic '{name}' was deleted or created again while its offsets were asked for; run the command again")
    return {(ids[place.topic], place.partition): at.offset for place, at in told.items()}


def _places(topics: Iterable[Topic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, number) for topic in topics for number in range(topic.partitions)]


def create(
    connection: BrokerConnection,
    names: Iterable[str],
    settings: Settings,
    *,
    own_time: Collection[str] = (),
    ahead: timedelta | None = timedelta(hours=1),
    compacted: bool = False,
) -> dict[str, Topic]:
    """Create the topics that do not exist yet, with the settings' partitions, replicas and retention. Returns all, ready for use.

    Records of topics in `own_time` get the time at which the log receives them, whatever their producers set. The other topics
    accept records whose timestamp is at most `ahead` of the broker's clock; with None any timestamp. `compacted` topics keep the
    newest record of each key.
    """
    wanted = list(names)
    existing = describe(connection, wanted)
    kafka = settings.kafka
    most = _ANY if ahead is None else ahead // timedelta(milliseconds=1)
    common = {"retention.ms": str(kafka.retention_hours * 3_600_000 or -1), "message.timestamp.after.max.ms": str(most)}
    common |= {"cleanup.policy": "compact"} if compacted else {}
    absent = [name for name in dict.fromkeys(wanted) if name not in existing]
    if not absent:
        return existing
    copies = _copies(connection, settings)
    common |= {"min.insync.replicas": str(_least_copies(copies))}
    for name in absent:
        configuration = common | (_OWN_TIME if name in own_time else {})
        _create(connection, NewTopic(name, kafka.partitions, copies, topic_configs=configuration))
    return _settled(connection, wanted)


def _copies(connection: BrokerConnection, settings: Settings) -> int:
    """The replicas of a new topic: as set, or as many as there are brokers, at most three."""
    if settings.kafka.bootstrap and settings.kafka.replication:
        return settings.kafka.replication
    return min(_MOST_COPIES, brokers(connection))


def _least_copies(copies: int) -> int:
    """The replicas that must have a record before it is acknowledged: a majority, and one of two, so that one broker may fail."""
    return copies // 2 + 1 if copies > 2 else 1


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


def record_login(connection: BrokerConnection, username: str, password: str) -> bool:
    """Record this user's SCRAM-SHA-512 login at the broker; a new password replaces the old one.

    The password does not leave this process: the broker gets its salted hash. False while the broker, which follows its
    controller, does not know any login of the user yet. Raises NoBroker or BrokerRefused.
    """
    credential = UserScramCredentialUpsertion(username, ScramMechanism.SCRAM_SHA_512, password, iterations=_ITERATIONS)
    admin = connection.admin
    told = ask(connection, "a login", lambda: admin.alter_user_scram_credentials([credential]))
    if refused := told.get(username):
        raise BrokerRefused(f"the login of '{username}' at {connection.address.bootstrap}: {refused}")
    known = ask(connection, "the logins", lambda: admin.describe_user_scram_credentials([username]))
    return bool(known[username]["credential_infos"])
