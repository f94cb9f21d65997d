"""The expert's job: stateless. Each micro-batch is grouped by itself and its partials are appended; a reader adds them up.

One pass for all views: an event becomes one row for each view that counts it, and one groupBy folds them all, so that a
trigger is one shuffle and one commit whatever the number of views. All views share one table of partials whose measures merge
by sum, max and min.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from bench.stock.jobs.arguments import parse, session
from bench.stock.jobs.spark_views import SCHEMA, SparkView, chosen
from bench.stock.jobs.tuned import FILES

COMPACT_EVERY = 50


def row_of(view: SparkView) -> Column:
    """The key and window under which a view counts an event; null where its filter leaves the event out."""
    key = sf.expr(next(iter(view.keys.values()), "null")).cast("string")
    start = sf.lit(None).cast("timestamp")
    if view.window is not None:
        # window() cannot stand inside an array; arithmetic gives the same start.
        start = sf.timestamp_seconds(sf.floor(sf.unix_seconds("at") / view.window) * view.window)
    row = sf.struct(sf.lit(view.name).alias("view"), key.alias("key"), start.alias("window_start"))
    return sf.when(sf.expr(view.where), row)


def main() -> None:
    arguments = parse(__doc__)
    spark = session(
        arguments,
        {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.streaming.checkpointFileManagerClass": FILES,
            "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
            "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "spark.databricks.delta.snapshotPartitions": "1",
        },
    )
    table = arguments.table("partials")
    rows = (
        spark.readStream.format("kafka")
        .options(**arguments.kafka_options())
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("kafka.fetch.max.wait.ms", "20")
        .load()
        .select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event"))
        .select("event.*")
        .select("at", "bytes", "ms", sf.explode(sf.array_compact(sf.array(*map(row_of, chosen(arguments.views))))).alias("row"))
    )

    def append(batch: DataFrame, number: int) -> None:
        partials(batch).write.format("delta").mode("append").save(table)
        if number and number % COMPACT_EVERY == 0:
            spark.sql(f"OPTIMIZE delta.`{table}`")

    spark.createDataFrame([], partials(rows).schema).write.format("delta").save(table)
    query = rows.writeStream.option("checkpointLocation", arguments.checkpoint("partials")).foreachBatch(append).start()
    query.awaitTermination()


def partials(rows: DataFrame) -> DataFrame:
    return rows.groupBy("row.view", "row.key", "row.window_start").agg(
        sf.count("*").alias("requests"),
        sf.sum("bytes").alias("bytes"),
        sf.max("bytes").alias("largest"),
        sf.max("ms").alias("slowest"),
        sf.min("at").alias("first"),
        sf.max("at").alias("last"),
    )


if __name__ == "__main__":
    main()
