"""Starts Spark in a contestant's program."""

from collections.abc import Mapping

from pyspark.sql import SparkSession


def start(settings: Mapping[str, str], cores: int) -> SparkSession:
    """A local session with these settings that logs errors only."""
    builder = SparkSession.builder.appName("peers").master(f"local[{cores}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark
