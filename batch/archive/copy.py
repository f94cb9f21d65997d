"""Copy a range of the log into the archive, byte for byte, with Spark, and find the offsets that are lost."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from batch.runtime import delta_commits, spark_jobs
from batch.runtime.file_ranges import RECORDS, FileRange
from batch.runtime.scan import scan
from batch.runtime.splits import Slice
from infra.kafka import Topic
from infra.spark.errors import SPARK_ERRORS, sentence
from infra.spark.kafka_source import topic_ids, topic_offsets
from ledger.delta.addresses import Tables
from ledger.delta.location import Location
from ledger.log import archive
from views.source.offset_ranges import Interval, Offsets, Partition, Ranges
from views.source.source import RECORDS_SCHEMA

_RECORDS_PER_FILE: Final = 1_000_000
# A reader reads a row group as a whole: this bounds its memory, also for large records.
_ROW_GROUP_BYTES: Final = 32 << 20
_SCAN_ROWS: Final = 1 << 20


def copy(
    session: SparkSession,
    options: Mapping[str, str],
    topics: Sequence[Topic],
    ranges: Ranges,
    *,
    tables: Tables,
    source: str,
    run: int,
) -> None:
    """Append the records of these ranges to the source's archive, in one commit with the run's number.

    Each file holds consecutive records of one partition, in order. Raises TaskFailed; `archive.progress` tells whether the commit
    landed.
    """
    address = tables.archive(source)
    handle = delta_commits.make_table(tables, address, RECORDS_SCHEMA, bounded=[*RECORDS.names, "timestamp"])
    lows = {partition: intervals[0][0] for partition, intervals in ranges.intervals}
    highs = {partition: intervals[-1][1] for partition, intervals in ranges.intervals}
    if not lows:
        delta_commits.add_files(handle, [], transaction=(archive.APP_ID, run))
        return
    session.conf.set("parquet.block.size", str(_ROW_GROUP_BYTES))
    try:
        records = (
            session.read.format("kafka")
            .options(**options)
            .option("assign", json.dumps(_partitions(topics, lows)))
            .option("startingOffsets", topic_offsets(topics, lows))
            .option("endingOffsets", topic_offsets(topics, highs))
            .option("includeHeaders", "true")
            .option("maxRecordsPerPartition", str(_RECORDS_PER_FILE))
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
            "headers",
        )
        writer = rows.write.format("delta").mode("append")
        writer.option("txnAppId", archive.APP_ID).option("txnVersion", str(run)).save(address)
    except SPARK_ERRORS as error:
        raise spark_jobs.TaskFailed(f"source {source!r} cannot be archived: {sentence(error)}") from error


def _partitions(topics: Sequence[Topic], partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """The numbers of the partitions, by topic name."""
    names = {topic.id: topic.name for topic in topics}
    found: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(names[topic], []).append(number)
    return found


def doubtful(files: Iterable[FileRange], ranges: Ranges, firsts: Offsets) -> frozenset[str]:
    """The paths of files that have nothing but records of these ranges, of a partition that the log no longer has.

    `firsts` are the first offsets that the log has now, by partition with the topic's id.
    """
    gone = [(partition, each) for partition, intervals in ranges.intervals if partition not in firsts for each in intervals]
    return frozenset(file.path for file in files if any(_lies_in(file, *piece) for piece in gone))


def _lies_in(file: FileRange, partition: Partition, interval: Interval) -> bool:
    """Whether all rows of the file surely are of this interval of the partition."""
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
