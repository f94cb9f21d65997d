"""Stock Spark's recompute: read the whole log, parse it, group it once for each view, overwrite a Delta table.

`--tuned` parses once and keeps the result for all views, with as many shuffle partitions as cores. Prints the seconds of each
repetition, from the raw log and from the events table, without Spark's own start.
"""

import argparse
import json
import time
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from bench.stock.jobs.arguments import Arguments, session
from bench.stock.jobs.spark_views import SCHEMA, chosen


@dataclass(frozen=True)
class Given:
    """The log to read, as the archive and as its events table."""

    archive: str
    events: str
    repeat: int
    tuned: bool


def raw(spark: SparkSession, given: Given) -> DataFrame:
    log = spark.read.format("delta").load(given.archive)
    return log.select(sf.from_json(sf.col("value").cast("string"), SCHEMA).alias("event")).select("event.*")


def typed(spark: SparkSession, given: Given) -> DataFrame:
    return spark.read.format("delta").load(given.events)


def recompute(events: DataFrame, arguments: Arguments, *, keep: bool) -> None:
    if keep:
        events = events.cache()
    for view in chosen(arguments.views):
        answer = events.where(view.where).groupBy(*view.groups()).agg(*view.aggregates())
        answer.write.format("delta").mode("overwrite").save(arguments.table(view.name))
    if keep:
        events.unpersist()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("archive", "events", "jars", "state", "memory"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("views", "cores", "repeat"):
        parser.add_argument(f"--{name}", required=True, type=int)
    parser.add_argument("--tuned", action="store_true")
    told = vars(parser.parse_args())
    given = Given(told.pop("archive"), told.pop("events"), told.pop("repeat"), told.pop("tuned"))
    arguments = Arguments(kafka="", topic="", **told)
    spark = session(arguments, {"spark.sql.shuffle.partitions": str(arguments.cores)} if given.tuned else {})
    seconds: dict[str, list[float]] = {"raw": [], "events": []}
    for _ in range(given.repeat):
        for name, read in (("raw", raw), ("events", typed)):
            start = time.monotonic()
            recompute(read(spark, given), arguments, keep=given.tuned)
            seconds[name].append(time.monotonic() - start)
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
