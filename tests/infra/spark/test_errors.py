"""Spark's failures in one sentence, from Spark's real output."""

import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from tandem.infra.java import jars
from tandem.infra.kafka import java_errors
from tandem.infra.spark.errors import broker_away, java_ended, sentence, worded
from tandem.views.errors import TandemError
from tests.stack import environ


@pytest.mark.spark
def test_the_sentence_of_a_task_reaches_the_user(spark: SparkSession) -> None:
    def broken(batches: Iterator[object]) -> Iterator[object]:
        raise TandemError("offset 7 is no event: it has no time")

    with pytest.raises(Exception) as caught:  # noqa: PT011 - which of Spark's it is, is Spark's affair
        spark.range(1).mapInArrow(broken, "id long").toArrow()
    assert sentence(caught.value) == "offset 7 is no event: it has no time"
    assert not java_ended(caught.value)
    assert str(worded(caught.value, "it failed")) == "it failed: offset 7 is no event: it has no time"


@pytest.mark.spark
def test_a_java_error_is_reported_by_its_root_cause(spark: SparkSession) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011
        spark.read.parquet("/no/such/folder").count()
    assert (
        sentence(caught.value) == "AnalysisException: [PATH_NOT_FOUND] Path does not exist: file:/no/such/folder. SQLSTATE: 42K03"
    )
    with pytest.raises(Exception) as caught:  # noqa: PT011
        spark.range(3).selectExpr("1 / (id - id)").collect()
    assert sentence(caught.value).startswith("SparkArithmeticException: [DIVIDE_BY_ZERO] Division by zero.")


@pytest.mark.spark
def test_errors_that_kafka_marks_as_retriable_are_waited_for(spark: SparkSession) -> None:
    """Every error of the jar that Spark reads with, raised in Java, and each as the innermost of several."""
    jvm: Any = spark._jvm
    (jar,) = [path for path in jars.paths("spark", environ=environ()) if path.name.startswith("kafka-clients")]
    package = "org/apache/kafka/common/errors/"
    names = [name.removeprefix(package).removesuffix(".class") for name in zipfile.ZipFile(jar).namelist() if package in name]
    retriable = jvm.java.lang.Class.forName("org.apache.kafka.common.errors.RetriableException")
    found = {
        name: bool(retriable.isAssignableFrom(jvm.java.lang.Class.forName(f"org.apache.kafka.common.errors.{name}")))
        for name in names
        if name.endswith("Exception")
    }
    assert {name for name, heals in found.items() if heals} == java_errors.RETRIABLE
    for name, heals in found.items():
        innermost = f"Caused by: org.apache.kafka.common.errors.{name}: why"
        outer = "org.apache.spark.SparkException: Job aborted: org.apache.kafka.common.errors.TimeoutException: x"
        assert java_errors.heals(f"{outer}\n{innermost}") == heals
    assert java_errors.heals("java.util.concurrent.TimeoutException: Cannot fetch record for offset 7 in 30000 milliseconds")
    assert not java_errors.heals("java.util.concurrent.TimeoutException: something else")
    assert not broker_away(ValueError("org.apache.kafka.common.errors.TimeoutException"))


def test_a_timestamp_that_spark_cannot_read_is_reported_with_its_record() -> None:
    """As Spark 4.2 writes it, for nanoseconds that a producer has taken for milliseconds."""
    printed = (
        "org.apache.spark.SparkException: Job aborted due to stage failure\n"
        "Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic sales partition 2 offset 7 has "
        "timestamp value 9300000000000000 that overflows when converting to Spark's microsecond-precision TimestampType.\n"
        "\tat org.apache.spark.sql.kafka010.KafkaExceptions$.kafkaMalformedRecordTimestamp(KafkaExceptions.scala:188)\n"
        "Caused by: java.lang.ArithmeticException: long overflow\n"
    )
    assert sentence(RuntimeError(printed)) == (
        "the record at offset 7 of partition 2 of topic 'sales' has the timestamp 9300000000000000 ms, after the year 294247, "
        "which Spark cannot read; delete the partition's records up to it on the broker, and set the topic's "
        "`message.timestamp.after.max.ms`"
    )


def test_a_dead_java_is_recognized() -> None:
    assert java_ended(Py4JNetworkError("Error while sending or receiving"))
    assert java_ended(ConnectionRefusedError(111, "refused"))
    assert str(worded(EOFError(), "it failed")) == "it failed: Spark's Java process has ended: it was killed, or has crashed"
    assert not java_ended(ValueError("no"))
    assert worded(ValueError("no"), "it failed") is None
    assert sentence(ValueError("no")) == "no"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            "Job aborted\n\tat a.b\nCaused by: java.io.IOException: No space left on device\n\tat c.d",
            "IOException: No space left on device",
        ),
        ("An error occurred while calling o1.save.\n: java.io.IOException: It is full\n\tat c.d", "IOException: It is full"),
        ("org.apache.spark.sql.AnalysisException: no such column", "AnalysisException: no such column"),
        ("", "RuntimeError"),
    ],
)
def test_the_innermost_cause_is_reported_without_its_package(message: str, words: str) -> None:
    assert sentence(RuntimeError(message)) == words
