"""Spark's failures in one sentence, from Spark's real output."""

import zipfile
from collections.abc import Iterator
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tandem.infra.java import jars
from tandem.infra.kafka import java_errors
from tandem.infra.spark.errors import broker_away, java_ended, sentence, timestamp_overflows, worded
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


def test_spark_fails_in_a_known_way_at_a_timestamp_beyond_64_bits() -> None:
    """As Spark 4.2 writes it, for nanoseconds that a producer has taken for milliseconds."""
    printed = (
        "org.apache.spark.SparkException: Job aborted due to stage failure\n"
        "Caused by: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic sales partition 2 offset 7 has "
        "timestamp value 9300000000000000 that overflows when converting to Spark's microsecond-precision TimestampType.\n"
        "\tat org.apache.spark.sql.kafka010.KafkaExceptions$.kafkaMalformedRecordTimestamp(KafkaExceptions.scala:188)\n"
        "Caused by: java.lang.ArithmeticException: long overflow\n"
    )
    assert timestamp_overflows(RuntimeError(printed))
    # Before the year -290308 Spark does not name the record.
    overflow = "java.lang.ArithmeticException: long overflow\n\tat java.base/java.lang.Math.multiplyExact(Math.java:1032)\n"
    assert timestamp_overflows(
        RuntimeError(f"{overflow}\tat org.apache.spark.sql.kafka010.KafkaRecordToRowConverter$.$anonfun$toRow$1(K.scala:36)\n")
    )
    assert not timestamp_overflows(RuntimeError(overflow))


def test_a_broker_that_is_away_from_a_task_that_reads_by_the_port_is_waited_for() -> None:
    printed = "PythonException: An exception was thrown\nTraceback (most recent call last):\n  File x\n{}: no records in time\n"
    assert broker_away(PySparkException(printed.format("tandem.infra.kafka.contract.NoBroker")))
    assert not broker_away(PySparkException(printed.format("tandem.infra.kafka.contract.NoTopic")))


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
