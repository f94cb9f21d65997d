"""Read records of Kafka and of the archive as Spark DataFrames with the columns that tasks need, headers as texts."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tandem.infra.kafka import Topic
from tandem.infra.spark import header_texts, kafka_source
from tandem.infra.spark.kafka_source import topic_ids, topic_offsets
from tandem.infra.spark.versions import compared
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files import scan
from tandem.ledger.files.file_ranges import RECORDS, log_table, rows_within
from tandem.ledger.files.splits import Slice, cut, even_rows
from tandem.views.source.offset_ranges import Offsets, Ranges
from tandem.views.source.source import RECORDS_SCHEMA, Source, record_columns

_FEWEST_ROWS: Final = 1 << 14
_MOST_ROWS: Final = 1 << 17


def of_kafka(records: DataFrame, topics: Sequence[Topic], source: Source) -> DataFrame:
    """The rows of Spark's Kafka source, with the topic ids that it lacks."""
    named = records.withColumnRenamed("timestampType", "timestamp_type")
    columns = [kafka_source.header_texts() if name == "headers" else name for name in record_columns(source)[1:]]
    return named.select(topic_ids(topics).alias("topic_id"), *columns)


def of_log(
    spark: SparkSession, options: Mapping[str, str], topics: Sequence[Topic], source: Source, *, starts: Offsets, ends: Offsets
) -> DataFrame:
    """The records between these offsets, which have every partition of the topics, read once."""
    reader = spark.read.format("kafka").options(**options, **headers_option(source))
    return of_kafka(
        reader.options(
            **subscription(topics),
            startingOffsets=topic_offsets(topics, starts),
            endingOffsets=topic_offsets(topics, ends),
            failOnDataLoss="true",
        ).load(),
        topics,
        source,
    )


def headers_option(source: Source) -> dict[str, str]:
    """The option of Spark's Kafka source to read headers, if the source's events have them."""
    return {"includeHeaders": "true"} if "headers" in record_columns(source) else {}


def of_archive(spark: SparkSession, tables: Tables, source: Source, ranges: Ranges) -> DataFrame:
    """The archive's records of these ranges, which must not be empty; no records if nothing is archived yet.

    Its tasks read the files themselves, wherever these are: Spark needs no file system of its own for them. The partitions of the
    frame are always the same parts of the ranges.
    """
    archive, columns = log_table(tables, tables.archive(source.name), RECORDS), record_columns(source)
    count = rows_within(archive.files, ranges)
    rows = even_rows(count, spark.sparkContext.defaultParallelism, least=_FEWEST_ROWS, most=_MOST_ROWS)
    slices = cut(archive.files, ranges, rows=rows)
    nothing = pa.RecordBatch.from_pylist([], pa.schema([RECORDS_SCHEMA.field(name) for name in columns]))
    schema = from_arrow_schema(header_texts.with_texts(nothing).schema)
    frame = spark.range(0, len(slices), 1, len(slices))
    return frame.mapInArrow(compared(partial(_of_slices, archive.place, slices, columns)), schema)


def subscription(topics: Sequence[Topic]) -> dict[str, str]:
    """The option of Spark's Kafka source that names the topics."""
    return {"subscribe": ",".join(topic.name for topic in topics)}


def _of_slices(
    archive: Location, slices: Sequence[Slice], columns: Sequence[str], numbers: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: numbers of slices in, the records of these slices out."""
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            for table in scan.scan(archive, slices[number], RECORDS, columns, rows=_FEWEST_ROWS):
                yield from map(header_texts.with_texts, table.to_batches())
