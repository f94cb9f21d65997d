"""The command-line arguments of every job of the comparison, and the part of a Spark session that is the same for all."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Arguments:
    """Where to read and write: `jars` is a comma-separated list, `kafka` a JSON file
    with the options of Spark's Kafka source, `state` the job's own empty folder.
    """

    kafka: str
    topic: str
    jars: str
    state: str
    views: int
    cores: int
    memory: str

    def kafka_options(self) -> dict[str, str]:
        options: dict[str, str] = json.loads(Path(self.kafka).read_text("utf-8"))
        return options

    def table(self, name: str) -> str:
        return f"{self.state}/tables/{name}"

    def checkpoint(self, name: str) -> str:
        return f"{self.state}/checkpoints/{name}"


def parse(description: str | None) -> Arguments:
    parser = argparse.ArgumentParser(description=description)
    for name in ("kafka", "topic", "jars", "state", "memory"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("views", "cores"):
        parser.add_argument(f"--{name}", required=True, type=int)
    return Arguments(**vars(parser.parse_args()))


def session(arguments: Arguments, settings: dict[str, str]) -> SparkSession:
    """A session with Delta and Kafka on as many cores and as much memory as every other job; the rest is `settings`.

    This is what a Spark user writes, on purpose not the platform's own session.
    """
    common = {
        "spark.jars": arguments.jars,
        "spark.driver.memory": arguments.memory,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    builder = SparkSession.builder.appName("bench").master(f"local[{arguments.cores}]")
    for key, value in {**common, **settings}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
