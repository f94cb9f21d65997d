"""Which partition a record's key belongs to: murmur2, as Java's producer, kafka-python and Spark's sink have it."""

from kafka.partitioner.default import murmur2


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, which may be empty, of a topic of N partitions."""
    return int(murmur2(key) & 0x7FFFFFFF) % partitions
