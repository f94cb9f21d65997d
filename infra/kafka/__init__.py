"""The platform's Kafka client: one port, two clients behind it.

kafka-python makes requests, creates topics, and reads single records. librdkafka sends many records (`bulk`); kafka-python does
so if librdkafka is not installed. Callers use only the names of this package.
"""

from infra.kafka.address import Address, jaas, java_options, login, outside
from infra.kafka.errors import BrokerRefused, NoBroker, NoTopic, NotSent
from infra.kafka.kafka_python.client import Connection, connect
from infra.kafka.kafka_python.logins import record_login
from infra.kafka.kafka_python.new_topics import create
from infra.kafka.kafka_python.offsets import delete_before, ends, newest_timestamps, starts
from infra.kafka.kafka_python.records import records
from infra.kafka.kafka_python.topics import configurations, describe, replicas, topic, topics
from infra.kafka.outcome import Appended, NotAppended, Outcome, Told
from infra.kafka.partitioner_check import OtherPartitioner, refuse_crc32
from infra.kafka.record import Record
from infra.kafka.sending import MOST_BYTES, SLOWER, Appender, Sender, appender, bulk_installed, sender
from infra.kafka.topic import Topic

__all__ = [
    "MOST_BYTES",
    "SLOWER",
    "Address",
    "Appended",
    "Appender",
    "BrokerRefused",
    "Connection",
    "NoBroker",
    "NoTopic",
    "NotAppended",
    "NotSent",
    "OtherPartitioner",
    "Outcome",
    "Record",
    "Sender",
    "Told",
    "Topic",
    "appender",
    "bulk_installed",
    "configurations",
    "connect",
    "create",
    "delete_before",
    "describe",
    "ends",
    "jaas",
    "java_options",
    "login",
    "newest_timestamps",
    "outside",
    "record_login",
    "records",
    "refuse_crc32",
    "replicas",
    "sender",
    "starts",
    "topic",
    "topics",
]
