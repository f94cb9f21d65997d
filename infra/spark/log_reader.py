"""Records of Kafka as a frame whose tasks read with the port's bulk reader, for records that Spark's Kafka source cannot read.

Spark 4.2 ends a job at a timestamp of which the microseconds do not fit in 64 bits: a producer has sent nanoseconds for
milliseconds. The bulk reader takes the nearest timestamp. It needs confluent-kafka where tasks run.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TypeVar

import pyarrow as pa
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
) -> DataFrame:
    """The committed records of these ranges of the topics, headers as texts. `columns` are some of RECORDS_SCHEMA, with `offset`.

    Each task reads one interval of a partition.
    """
    pieces = [(place, interval) for place, intervals in ranges.intervals for interval in intervals]
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
            place, interval = pieces[number]
            for table in kafka.records_within(address, topics, place, interval, columns=columns):
                yield from map(header_texts.with_texts, table.to_batches())
