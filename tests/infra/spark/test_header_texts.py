"""Headers pass from Spark's JVM to a task as texts, and are the same headers there."""

import random

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tandem.infra.spark.header_texts import with_headers, with_texts
from tandem.infra.spark.kafka_source import header_texts
from tandem.views.source.source import RECORDS_SCHEMA

KIND = RECORDS_SCHEMA.field("headers").type
ODD = [
    None,
    [],
    [{"key": "", "value": b""}],
    [{"key": "a", "value": None}],
    [{"key": "a", "value": b"1"}, {"key": "a", "value": b"2"}, {"key": "b", "value": None}],
    [{"key": 'quote " and \\ and \x00 \x1f \u2028', "value": bytes(range(256))}],
    [{"key": "ключ \U0001f511", "value": "\U0001f511".encode()}],
    [{"key": "k" * 300, "value": b"v" * 70_000}],
]


def random_headers(dice: random.Random) -> list[dict[str, object]] | None:
    keys = ["traceparent", "é", "\t", "{}", "[", "null"]
    found: list[dict[str, object]] = [
        {"key": dice.choice(keys), "value": dice.choice([None, dice.randbytes(dice.randrange(9))])}
        for _ in range(dice.randrange(4))
    ]
    return dice.choice([None, found])


@pytest.mark.spark
@pytest.mark.parametrize("headers", [ODD, [None, None], [random_headers(random.Random(n)) for n in range(300)]])
def test_headers_arrive_as_they_were(spark: SparkSession, headers: list[list[dict[str, object]] | None]) -> None:
    rows = pa.table({"offset": pa.array(range(len(headers)), pa.int64()), "headers": pa.array(headers, KIND)})
    batches = spark.createDataFrame(rows).select("offset", header_texts()).toArrow().to_batches()
    found = pa.Table.from_batches([with_headers(batch) for batch in batches])
    assert found.schema.field("headers") == RECORDS_SCHEMA.field("headers")
    assert found.sort_by("offset")["headers"].to_pylist() == headers


@pytest.mark.parametrize("headers", [ODD, [None, None], [], [random_headers(random.Random(n)) for n in range(300)]])
def test_texts_of_python_are_read_too(headers: list[list[dict[str, object]] | None]) -> None:
    rows = pa.record_batch([pa.array(range(len(headers)), pa.int64()), pa.array(headers, KIND)], ["offset", "headers"])
    told = with_texts(rows)
    assert told.schema.field("headers").type == pa.string()
    assert with_headers(told).to_pylist() == rows.to_pylist()
    assert with_headers(with_texts(rows.select(["offset"]))) == rows.select(["offset"])
