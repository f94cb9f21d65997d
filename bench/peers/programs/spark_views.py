"""The view in Structured Streaming, as someone who knows Spark writes it: CONFIG, a JSON file with the fields of `Config`.

One stateful operator drops duplicates, by Spark's dropDuplicatesWithinWatermark on the time at which the log received the event,
so that no event is late for it. Each micro-batch is then aggregated once and appended to a Delta table by delta-rs, whose commits
take a fraction of the time of Spark's Delta sink; who reads adds up the partial rows. Compaction runs beside the query.
"""

import json
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from tandem.bench.peers import spark_session

SCHEMA = "id string, at timestamp, user string, path string, bytes long, ms double"
COMPACT_EVERY = 50


@dataclass(frozen=True)
class Config:
    """Spark's settings, the options of its Kafka source, and where to read and write."""

    spark: dict[str, str]
    source: dict[str, str]
    cores: int
    dedup_window: str
    table: str
    checkpoint: str


def partials(events: DataFrame) -> DataFrame:
    """The measures of these events by page and minute, as milliseconds since the epoch."""
    minute = (sf.floor(sf.unix_timestamp("at") / 60) * 60_000).alias("w")
    measures = (sf.count("*").alias("n"), sf.sum("bytes").alias("b"), sf.max("ms").alias("m"))
    return events.groupBy("path", minute).agg(*measures)


def main() -> None:
    """Run the query until the process is killed."""
    config = Config(**json.loads(Path(sys.argv[1]).read_text("utf-8")))
    spark = spark_session.start(config.spark, config.cores)
    events = (
        spark.readStream.format("kafka")
        .options(**config.source)
        .load()
        .select(sf.col("timestamp").alias("received"), sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event"))
        .select("received", "event.*")
        .withWatermark("received", config.dedup_window)
        .dropDuplicatesWithinWatermark(["id"])
    )
    commits = 0

    def append(batch: DataFrame, _: int) -> None:
        nonlocal commits
        rows = partials(batch).toArrow()
        if not rows.num_rows:
            return
        write_deltalake(config.table, rows, mode="append")
        commits += 1
        if commits % COMPACT_EVERY == 0:
            threading.Thread(target=compact, args=(config.table,), daemon=True).start()

    query = events.writeStream.option("checkpointLocation", config.checkpoint).foreachBatch(append).start()
    print("READY", int(time.time() * 1000), flush=True)
    query.awaitTermination()


def compact(table: str) -> None:
    """Replace small files by larger ones. A compaction that an append overtook is left to the next one."""
    try:
        DeltaTable(table).optimize.compact()
    except CommitFailedError as error:
        print("not compacted:", error, file=sys.stderr)


if __name__ == "__main__":
    main()
