"""Copy a range of the log into files of the archive, byte for byte, with Spark, and find the offsets that are lost."""

import json
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from tandem.batch.archive import decode_to_files
from tandem.batch.archive.copy_task import SCHEMA, Copied, copy_records, total
from tandem.batch.archive.decode_to_files import Decoding
from tandem.batch.runtime import spark_jobs
from tandem.infra.kafka import Address, Topic
from tandem.infra.spark import log_reader
from tandem.infra.spark.errors import SPARK_ERRORS, sentence
from tandem.infra.spark.kafka_source import header_texts, kafka_options, topic_ids, topic_offsets
from tandem.infra.spark.versions import compared
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import RECORDS, FileRange
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice, even_rows
from tandem.views.source.offset_ranges import Interval, Offsets, Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA

_FEW_RECORDS: Final = 50_000
_RECORDS_PER_FILE: Final = 1_000_000
# The bytes that Spark passes to Python at once, besides its limit of 10 000 rows.
_BATCH_BYTES: Final = 16 << 20
_FETCH: Final = {
    # By default Kafka's client returns 500 records per poll, and fetches a megabyte of a partition at once.
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(4 << 20),
}
_SCAN_ROWS: Final = 1 << 20


def copy(
    session: SparkSession,
    address: Address,
    topics: Sequence[Topic],
    ranges: Ranges,
    work: Decoding,
    *,
    parallelism: int,
    typed: bool = True,
) -> Copied:
    """Copy the records of these ranges, one interval a partition, to new files of the archive; decode them too if `typed`.

    Each task reads a piece of one partition from the log, once. If Spark cannot read a timestamp, the job runs again and reads by
    the port. Nothing is committed. Raises TaskFailed.
    """
    lows = {partition: intervals[0][0] for partition, intervals in ranges.intervals}
    highs = {partition: intervals[-1][1] for partition, intervals in ranges.intervals}
    if not lows:
        return Copied((), decode_to_files.total(()) if typed else None)
    most = even_rows(ranges.length, parallelism, least=_FEW_RECORDS, most=_RECORDS_PER_FILE)
    session.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", str(_BATCH_BYTES))
    try:
        records = (
            session.read.format("kafka")
            .options(**{**_FETCH, **kafka_options(address)})
            .option("assign", json.dumps(_partitions(topics, lows)))
            .option("startingOffsets", topic_offsets(topics, lows))
            .option("endingOffsets", topic_offsets(topics, highs))
            .option("includeHeaders", "true")
            .option("maxRecordsPerPartition", str(most))
            .load()
        )
        rows = records.select(
            topic_ids(topics).alias("topic_id"),
            "partition",
            "offset",
            "timestamp",
            sql.col("timestampType").alias("timestamp_type"),
            "key",
            "value",
            header_texts(),
        )
        return log_reader.use_either(
            lambda frame: total(
                frame.mapInArrow(compared(partial(copy_records, work, typed=typed)), SCHEMA).toArrow(), typed=typed
            ),
            rows,
            lambda: log_reader.of_ranges(session, address, topics, ranges, RECORDS_SCHEMA.names, rows=most),
        )
    except SPARK_ERRORS as error:
        raise spark_jobs.TaskFailed(f"source {work.source!r} cannot be archived: {sentence(error)}") from error


def _partitions(topics: Sequence[Topic], partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """The numbers of the partitions, by topic name."""
    names = {topic.id: topic.name for topic in topics}
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(names[topic], []).append(number)
    return found


def doubtful(files: Iterable[FileRange], ranges: Ranges, firsts: Offsets) -> frozenset[str]:
    """The paths of files that have only records of these ranges, of a partition that the log no longer has.

    `firsts` are the first offsets that the log has now, by partition with the topic's id.
    """
    gone = [(partition, each) for partition, intervals in ranges.intervals if partition not in firsts for each in intervals]
    return frozenset(file.path for file in files if any(_lies_in(file, *piece) for piece in gone))


def _lies_in(file: FileRange, partition: Partition, interval: Interval) -> bool:
    """Whether all rows of the file are certainly in this interval of the partition."""
    topic, number = partition
    low, high = file.offsets
    return file.topics == (topic, topic) and file.partitions == (number, number) and interval[0] <= low and high <= interval[1]


def lost(place: Location, files: list[FileRange], ranges: Ranges, firsts: Offsets) -> Ranges:
    """The offsets of the ranges that the archive lacks, and that lie below the log's first offsets now: they count as lost.

    A missing offset that the log still covers is a marker, an aborted record or a compacted record. Below the log's start this
    cannot be known.
    """
    found: dict[Partition, list[Interval]] = {}
    for partition, intervals in ranges.intervals:
        for start, end in intervals:
            gone = min(end, firsts.get(partition, end))
            if start < gone:
                found[partition] = [*found.get(partition, []), *_absent(place, files, partition, (start, gone))]
    pieces = [Ranges.of({partition: interval}) for partition, intervals in found.items() for interval in intervals]
    return Ranges().union(*pieces)


def _absent(place: Location, files: list[FileRange], partition: Partition, interval: Interval) -> list[Interval]:
    """The parts of the interval for which the archive has no row."""
    holding = tuple(span.path for span in files if span.overlap(partition, interval))
    part = Slice(Ranges.of({partition: interval}), holding, 0)
    pieces = [rows[RECORDS.offset].to_numpy() for rows in scan(place, part, RECORDS, [RECORDS.offset], rows=_SCAN_ROWS)]
    start, end = interval
    there = np.sort(np.concatenate([np.array([start - 1]), *pieces, np.array([end])]))
    jumps = np.flatnonzero(np.diff(there) > 1)
    return [(int(there[at]) + 1, int(there[at + 1])) for at in jumps]
