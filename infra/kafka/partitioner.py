"""The partition of a record's key, by murmur2 as in Java's producer, kafka-python and Spark's sink."""

from kafka.partitioner.default import murmur2


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, which may be empty, of a topic of N partitions."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
