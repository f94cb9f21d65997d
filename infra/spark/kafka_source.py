"""The options of Spark's Kafka source and sink, and columns of its records."""

import json
from collections.abc import Iterable

from pyspark.sql import Column, functions

from tandem.infra.kafka import Address, Topic, java_options
from tandem.views.source.offset_ranges import Offsets


def topic_ids(topics: Iterable[Topic]) -> Column:
    """The topic id of each record of Spark's Kafka source, which has only the topics' names."""
    return functions.coalesce(*(functions.when(functions.col("topic") == one.name, functions.lit(one.id)) for one in topics))


def header_texts() -> Column:
    """The headers of each record as `infra/spark/header_texts.py` describes: values are base64, null stays null."""
    return functions.to_json("headers", {"ignoreNullFields": "false"}).alias("headers")


def topic_offsets(topics: Iterable[Topic], offsets: Offsets) -> str:
    """Offsets of these topics in the form of the options of Spark's Kafka source."""
    names = {topic.id: topic.name for topic in topics}
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, number), offset in sorted(offsets.items()):
        by_topic.setdefault(names[topic], {})[str(number)] = offset
    return json.dumps(by_topic)


def kafka_options(address: Address) -> dict[str, str]:
    """The options of Spark's Kafka source: the broker, the login, only committed records, and no topic that it creates."""
    return {f"kafka.{name}": value for name, value in java_options(address).items()} | {
        "kafka.isolation.level": "read_committed",
        # Else a consumer whose topic was deleted has a broker at Kafka's defaults create it again.
        "kafka.allow.auto.create.topics": "false",
    }
