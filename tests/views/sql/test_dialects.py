"""Where expressions differ from the SQL of Spark and PostgreSQL: each value of the table is computed by its engine."""

import duckdb
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tandem.cli.dev.expressions_page import page
from tandem.infra.folders import ROOT
from tandem.views.errors import DefinitionError
from tandem.views.measures import measure_registry
from tandem.views.sql import engine
from tandem.views.sql.allowed_functions import why_refused
from tandem.views.sql.dialect_difference import ERROR, NONE, POSTGRES, DialectExample
from tandem.views.sql.dialect_hints import hint, operations
from tandem.views.sql.dialects import DIFFERENCES
from tandem.views.sql.expressions import bind_expression
from tandem.views.sql.spark_names import SPARK_AGGREGATES, SPARK_NAMES
from tests.views.sql.postgres import Postgres, needs_postgres, postgres

EXAMPLES = [pytest.param(example, id=example.sql) for difference in DIFFERENCES for example in difference.examples]
FIELDS = pa.schema([("s", pa.string()), ("i", pa.int64()), ("t", pa.timestamp("us", tz="UTC"))])

__all__ = ["postgres"]


def here(sql: str) -> str:
    try:
        ((value,),) = engine.connection().execute(f"SELECT CAST(({sql}) AS VARCHAR)").fetchall()
    except duckdb.Error:
        return ERROR
    return "NULL" if value is None else value.replace("-nan", "nan")


def in_spark(spark: SparkSession, sql: str) -> str:
    try:
        ((value,),) = spark.sql(f"SELECT CAST(({sql}) AS STRING)").collect()
    except PySparkException as error:
        return NONE if error.getCondition() == "UNRESOLVED_ROUTINE" else ERROR
    return "NULL" if value is None else str(value)


@pytest.mark.parametrize("example", EXAMPLES)
def test_the_values_here_are_duckdbs(example: DialectExample) -> None:
    assert here(example.sql) == example.here


@pytest.mark.slow
def test_the_values_of_spark_are_sparks(spark: SparkSession) -> None:
    wrong = {}
    for difference in DIFFERENCES:
        for example in difference.examples:
            value = in_spark(spark, example.in_spark or example.sql)
            wrong |= {example.sql: value} if value != example.spark else {}
    assert wrong == {}
    assert {theirs: in_spark(spark, theirs) for theirs, _ in SPARK_NAMES.values()} == {
        theirs: here(ours).replace("nan", "NaN") for theirs, ours in SPARK_NAMES.values()
    }
    theirs = {row[0] for row in spark.sql("SHOW FUNCTIONS").collect()}
    ours = {row[0] for row in engine.connection().execute("SELECT function_name FROM duckdb_functions()").fetchall()}
    assert {*SPARK_NAMES, *SPARK_AGGREGATES} <= theirs - ours


@needs_postgres
@pytest.mark.slow
def test_the_values_of_postgresql_are_its_own(postgres: Postgres) -> None:
    if postgres.version != POSTGRES.split(".")[0]:
        pytest.skip(f"the server is PostgreSQL {postgres.version}, the table of {POSTGRES}")
    wrong = {}
    for difference in DIFFERENCES:
        for example in difference.examples:
            value = postgres.value(example.in_postgres or example.sql)
            wrong |= {example.sql: value} if value != example.postgres else {}
    assert wrong == {}


@pytest.mark.parametrize("name", SPARK_NAMES)
def test_a_name_of_spark_is_answered_with_an_expression_that_may_be_used(name: str) -> None:
    theirs, ours = SPARK_NAMES[name]
    why = why_refused(name, ())
    assert why == f"there is no function {name}; what is `{theirs}` in Spark is `{ours}` here"
    bind_expression(f"({ours}) IS NULL", FIELDS, "Sample")


def test_an_aggregate_of_spark_is_answered_with_its_measure() -> None:
    with pytest.raises(DefinitionError, match=r"collect_list is an aggregate: .* its measure is collect_set"):
        bind_expression("collect_list(s)", FIELDS, "Sample")
    assert set(SPARK_AGGREGATES.values()) <= set(vars(measure_registry))
    with pytest.raises(DefinitionError, match=r"there is no function nvl; what is `nvl\(NULL, 2\)` in Spark is"):
        bind_expression("nvl(s, 'x')", FIELDS, "Sample")


@pytest.mark.parametrize("name", [name for difference in DIFFERENCES for name in difference.names])
def test_every_difference_has_an_example_that_shows_it(name: str) -> None:
    text = hint(name)
    assert text is not None
    assert " here, " in text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("log(i) + i", ["+", "log"]),
        ("i / 2 // 3", ["//", "/"]),
        ("CAST(s AS INT8)", ["CAST AS INTEGER"]),
        ("s::text", ["CAST AS VARCHAR"]),
        ("CAST('2026-11-01' AS DATE)", []),
        ("s LIKE 'a%'", []),
        ("s LIKE 'a\\%'", ["LIKE"]),
        ("extract(year FROM t)", []),
        ("extract(dow FROM t)", ["date_part"]),
        ("s[1]", ["[]"]),
        ("m['a']", []),
        ("i ** 2", ["^"]),
        ("concat(s, 'x')", ["concat"]),
    ],
)
def test_operations_are_named_as_in_the_table(text: str, found: list[str]) -> None:
    assert list(operations(text)) == found


def test_what_means_the_same_has_no_hint() -> None:
    assert [hint(name) for name in ("+", "abs", "coalesce", "CAST", "date_trunc")] == [None] * 5


def test_the_page_is_written_from_the_table() -> None:
    assert (ROOT / "docs" / "expressions.md").read_text("utf-8") == page()
