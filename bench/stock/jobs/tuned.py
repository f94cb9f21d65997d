"""The textbook job tuned by someone who knows Spark: the same queries, with what its documentation and forums advise.

Few shuffle partitions, RocksDB state with changelogs, no adaptive planning of tiny batches, cheap checkpoint files, a short
fetch wait, fair scheduling between the queries, and deletion vectors so that a MERGE does not rewrite the files it touches.
"""

from delta.tables import DeltaTable
from pyspark.sql import functions as sf

from bench.stock.jobs.arguments import parse, session
from bench.stock.jobs.spark_views import SCHEMA, chosen
from bench.stock.jobs.textbook import merge_into

STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def main() -> None:
    arguments = parse(__doc__)
    spark = session(
        arguments,
        {
            "spark.sql.shuffle.partitions": str(arguments.cores),
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.streaming.stateStore.providerClass": STATE,
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.streaming.checkpointFileManagerClass": FILES,
            "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
            "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
            "spark.scheduler.mode": "FAIR",
            "spark.databricks.delta.merge.optimizeInsertOnlyMerge.enabled": "true",
            "spark.databricks.delta.snapshotPartitions": "1",
        },
    )
    events = (
        spark.readStream.format("kafka")
        .options(**arguments.kafka_options())
        .option("subscribe", arguments.topic)
        .option("startingOffsets", "earliest")
        .option("kafka.fetch.max.wait.ms", "20")
        .load()
        .select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event"))
        .select("event.*")
    )
    for view in chosen(arguments.views):
        counted = events.where(view.where).groupBy(*view.groups()).agg(*view.aggregates())
        (
            DeltaTable.create(spark)
            .location(arguments.table(view.name))
            .addColumns(counted.schema)
            .property("delta.enableDeletionVectors", "true")
            .property("delta.autoOptimize.autoCompact", "true")
            .execute()
        )
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", view.name)
        (
            counted.writeStream.outputMode("update")
            .option("checkpointLocation", arguments.checkpoint(view.name))
            .foreachBatch(merge_into(arguments.table(view.name), view))
            .start()
        )
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
