"""Records of Kafka as a frame whose tasks read with the port's bulk reader, for records that Spark's Kafka source cannot read.

Spark 4.2 ends a job at a timestamp of which the microseconds do not fit in 64 bits: a producer has sent nanoseconds for
milliseconds. The bulk reader takes the nearest timestamp. It needs confluent-kafka where tasks run.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tandem.infra import kafka
from tandem.infra.spark import header_texts
from tandem.infra.spark.errors import SPARK_ERRORS, timestamp_overflows
from tandem.infra.spark.versions import compared
from tandem.views.source.offset_ranges import Interval, Partition, Ranges
from tandem.views.source.source import RECORDS_SCHEMA

_T = TypeVar("_T")
_Piece = tuple[Partition, Interval]
_AT_ONCE: Final = 10_000
_WAIT_S: Final = 1.0


def use_either(use: Callable[[DataFrame], _T], by_spark: DataFrame, by_port: Callable[[], DataFrame]) -> _T:
    """The result of `use` for Spark's frame, or for the port's if a timestamp ends Spark's job. Raises what `use` raises."""
    try:
        return use(by_spark)
    except SPARK_ERRORS as error:
        if not timestamp_overflows(error):
            raise
    return use(by_port())


def of_ranges(
    spark: SparkSession,
    address: kafka.Address,
    topics: Sequence[kafka.Topic],
    ranges: Ranges,
    columns: Sequence[str],
    *,
    rows: int | None = None,
) -> DataFrame:
    """The committed records of these ranges of the topics, headers as texts. `columns` are some of RECORDS_SCHEMA, with `offset`.

    Each task reads one partition's offsets, at most `rows` of them.
    """
    pieces = [
        (place, (at, min(end, at + (rows or end - start))))
        for place, intervals in ranges.intervals
        for start, end in intervals
        for at in range(start, end, rows or end - start)
    ]
    nothing = pa.RecordBatch.from_pylist([], pa.schema([RECORDS_SCHEMA.field(name) for name in columns]))
    schema = from_arrow_schema(header_texts.with_texts(nothing).schema)
    frame = spark.range(0, len(pieces), 1, max(1, len(pieces)))
    return frame.mapInArrow(compared(partial(_of_pieces, address, topics, pieces, columns)), schema)


def _of_pieces(
    address: kafka.Address,
    topics: Sequence[kafka.Topic],
    pieces: Sequence[_Piece],
    columns: Sequence[str],
    numbers: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: numbers of pieces in, their records out."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for table in _records(address, topics, pieces[number], columns):
                yield from map(header_texts.with_texts, table.to_batches())


def _records(address: kafka.Address, topics: Sequence[kafka.Topic], piece: _Piece, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Raises LogMoved, BrokerRefused, and NoBroker if nothing comes for the address's time."""
    place, (reached, end) = piece
    reader = kafka.BulkReader(address, topics, {place: reached}, columns=columns)
    try:
        deadline = time.monotonic() + address.timeout_s
        while reached < end:
            read = reader.read(most=_AT_ONCE, wait_s=_WAIT_S)
            if (now := read.ends.get(place, reached)) > reached:
                reached, deadline = now, time.monotonic() + address.timeout_s
            elif time.monotonic() > deadline:
                raise kafka.NoBroker(f"Kafka at {address.bootstrap} did not return records in time")
            yield read.records.filter(pc.less(read.records["offset"], end))
    finally:
        reader.close()
