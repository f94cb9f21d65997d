"""Topics by kafka-python: which exist, and how they are configured and replicated."""

import base64
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from kafka.admin import ConfigResource, ConfigResourceType
from kafka.errors import UnknownTopicOrPartitionError, for_code

from tandem.infra.kafka.described_topic import Topic
from tandem.infra.kafka.errors import NoTopic
from tandem.infra.kafka.kafka_python.client import BrokerConnection, ask


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
