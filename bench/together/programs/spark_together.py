"""A question in Structured Streaming, as its documentation has it: CONFIG, a JSON file with the fields of `QuestionConfig`.

Each micro-batch is aggregated and appended to a Delta table of partial rows, which a reader adds up. A look-up takes the latest
version among those that were read so far, because Structured Streaming has no join as of a time. The join of two streams drops
what comes later than the watermark.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from deltalake import write_deltalake
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from tandem.bench.peers import spark_session

SCHEMA = "at timestamp, kind string, ad string, user long, price long"
WATERMARK = "10 seconds"


@dataclass(frozen=True)
class QuestionConfig:
    """Spark's settings, the options of its Kafka source, the question, its topics, and where to write."""

    spark: dict[str, str]
    source: dict[str, str]
    cores: int
    question: str
    topics: list[str]
    table: str
    checkpoint: str
    within: str


def hour(at: str = "at") -> Column:
    """The start of the hour in milliseconds since the epoch."""
    return (sf.floor(sf.unix_timestamp(at) / 3600) * 3_600_000).alias("w")


def stream(spark: SparkSession, config: QuestionConfig) -> DataFrame:
    """The events of the question's topics."""
    events = spark.readStream.format("kafka").options(**config.source, subscribe=",".join(config.topics)).load()
    return events.select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")


def rate(events: DataFrame) -> tuple[DataFrame, Callable[[DataFrame], DataFrame]]:
    """Both topics as one stream."""
    counts = (sf.count_if(sf.col("kind") == "seen").alias("shown"), sf.count_if(sf.col("kind") == "click").alias("clicked"))
    return events, lambda batch: batch.groupBy("ad", hour()).agg(*counts)


def cost(events: DataFrame) -> tuple[DataFrame, Callable[[DataFrame], DataFrame]]:
    """Clicks with the latest bid at their time among those of this micro-batch and of earlier ones."""
    bids: list[DataFrame] = []

    def look_up(batch: DataFrame) -> DataFrame:
        batch = batch.cache()
        new = batch.where("kind = 'bid'").select("ad", sf.col("at").alias("since"), "price")
        cores = batch.sparkSession.sparkContext.defaultParallelism
        bids_read = (bids.pop().union(new).coalesce(cores) if bids else new).localCheckpoint()
        bids.append(bids_read)
        clicks = batch.where("kind = 'click'").withColumn("number", sf.monotonically_increasing_id()).drop("price")
        standing = (
            clicks.join(bids_read, "ad").where("since <= at").groupBy("number").agg(sf.max_by("price", "since").alias("price"))
        )
        measures = (sf.count("*").alias("n"), sf.sum("price").alias("cost"))
        return clicks.join(standing, "number", "left").groupBy("ad", hour()).agg(*measures)

    return events, look_up


def wait(events: DataFrame, within: str) -> tuple[DataFrame, Callable[[DataFrame], DataFrame]]:
    """A join of two streams."""
    timed = events.withWatermark("at", WATERMARK)
    sights = timed.where("kind = 'seen'").select("ad", "user", sf.col("at").alias("begun"))
    clicks = timed.where("kind = 'click'").select("ad", "user", "at")
    near = sf.expr(f"at BETWEEN begun AND begun + INTERVAL {within} AND date_trunc('HOUR', at) = date_trunc('HOUR', begun)")
    pairs = sights.join(clicks, ["ad", "user"]).where(near)
    return pairs, lambda batch: batch.groupBy("ad", hour("begun")).agg(sf.count("*").alias("n"))


def main() -> None:
    """Run the query until the process is killed."""
    config = QuestionConfig(**json.loads(Path(sys.argv[1]).read_text("utf-8")))
    spark = spark_session.start(config.spark, config.cores)
    events = stream(spark, config)
    if config.question == "wait":
        rows, partials = wait(events, config.within)
    else:
        rows, partials = {"rate": rate, "cost": cost}[config.question](events)

    def append(batch: DataFrame, _: int) -> None:
        partial_rows = partials(batch).toArrow()
        if partial_rows.num_rows:
            write_deltalake(config.table, partial_rows, mode="append")

    query = rows.writeStream.option("checkpointLocation", config.checkpoint).foreachBatch(append).start()
    print("READY", int(time.time() * 1000), flush=True)
    query.awaitTermination()


if __name__ == "__main__":
    main()
