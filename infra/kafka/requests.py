"""What `tandem.infra.kafka` offers that needs kafka-python; it is imported when one of these names is first used."""

from tandem.infra.kafka.kafka_python.client import BrokerConnection, connect
from tandem.infra.kafka.kafka_python.logins import record_login
from tandem.infra.kafka.kafka_python.new_topics import create
from tandem.infra.kafka.kafka_python.offsets import delete_before, ends, newest_timestamps, starts
from tandem.infra.kafka.kafka_python.records import records
from tandem.infra.kafka.kafka_python.topics import configurations, describe, replicas, topic, topics

__all__ = [
    "BrokerConnection",
    "configurations",
    "connect",
    "create",
    "delete_before",
    "describe",
    "ends",
    "newest_timestamps",
    "record_login",
    "records",
    "replicas",
    "starts",
    "topic",
    "topics",
]
