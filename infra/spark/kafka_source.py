"""What Spark's Kafka source and sink are given: where the log is, and topics and offsets in their words."""

import json
from collections.abc import Iterable

from pyspark.sql import Column, functions

from infra.kafka import Address, Topic, java_options
from views.source.offset_ranges import Offsets


def topic_ids(topics: Iterable[Topic]) -> Column:
    """The id of the topic of each record that Spark's Kafka source gives, which knows topics by their names alone."""
    return functions.coalesce(*(functions.when(functions.col("topic") == one.name, functions.lit(one.id)) for one in topics))


def topic_offsets(topics: Iterable[Topic], offsets: Offsets) -> str:
    """Offsets of these topics as the options of Spark's Kafka source take them."""
    names = {topic.id: topic.name for topic in topics}
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        by_topic.setdefault(names[topic], {})[str(number)] = offset
    return json.dumps(by_topic)


def kafka_options(address: Address) -> dict[str, str]:
    """What Spark's Kafka source and sink need: where the log is, how to log in, and committed records only."""
    return {f"kafka.{name}": value for name, value in java_options(address).items()} | {"kafka.isolation.level": "read_committed"}
