"""The textbook job: from_json, a stateful groupBy for each view, foreachBatch MERGE into Delta, Spark's defaults.

What a careful reader of the Structured Streaming and Delta guides writes. No watermark: it would drop the late events that
the other jobs count.
"""

from collections.abc import Callable

from delta.tables import DeltaTable
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from bench.stock.jobs.arguments import parse, session
from bench.stock.jobs.spark_views import SCHEMA, SparkView, chosen


def merge_into(table: str, view: SparkView) -> Callable[[DataFrame, int], None]:
    same = " AND ".join(f"old.`{column}` <=> new.`{column}`" for column in view.columns())

    def merge(batch: DataFrame, _: int) -> None:
        (
            DeltaTable.forPath(batch.sparkSession, table)
            .alias("old")
            .merge(batch.alias("new"), same)
            .whenMatchedUpdateAll()
            .whenNotMatchedInsertAll()
            .execute()
        )

    return merge


def main() -> None:
    arguments = parse(__doc__)
    spark = session(arguments, {})
    events = (
        spark.readStream.format("kafka")
        .options(**arguments.kafka_options())
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event"))
        .select("event.*")
    )
    for view in chosen(arguments.views):
        counted = events.where(view.where).groupBy(*view.groups()).agg(*view.aggregates())
        spark.createDataFrame([], counted.schema).write.format("delta").save(arguments.table(view.name))
        (
            counted.writeStream.outputMode("update")
            .option("checkpointLocation", arguments.checkpoint(view.name))
            .foreachBatch(merge_into(arguments.table(view.name), view))
            .start()
        )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
