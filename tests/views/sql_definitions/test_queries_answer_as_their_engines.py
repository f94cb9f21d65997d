"""A translated query answers what its engine answers to the query itself, over the same rows: Spark, and a PostgreSQL server."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from math import isclose
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from pyspark.sql import SparkSession

from tandem.views.sql_definitions.translate import translate
from tandem.views.testing import answer, events_table
from tandem.views.view import View
from tests.samples import Sample
from tests.views.sql.postgres import Postgres, needs_postgres, postgres
from tests.views.sql_definitions.test_queries_are_translated import view_of

__all__ = ["postgres"]

BEGIN = datetime(2026, 10, 24, 20, tzinfo=UTC)
"""A few hours before Berlin's clocks go back."""
BERLIN = ZoneInfo("Europe/Berlin")
IN_SPARK = {
    "tumbling": """
        SELECT s, window(at, '1 hour') AS w, count(*) AS n, sum(i) AS t, avg(i) AS m, min(d) AS low, max(at) AS newest
        FROM samples GROUP BY s, window(at, '1 hour')""",
    "hopping": """
        SELECT window(at, '1 hour', '20 minutes') AS w, count(i) AS n, sum(d) AS t FROM samples
        WHERE flag GROUP BY window(at, '1 hour', '20 minutes')""",
    "session": """
        SELECT flag, session_window(at, '10 minutes') AS w, count(*) AS n, max(f) AS high FROM samples
        GROUP BY flag, session_window(at, '10 minutes')""",
    "truncated": "SELECT date_trunc('DAY', at) AS w, count(*) AS n, count_if(i > 2) AS big FROM samples GROUP BY 1",
    "moments": """
        SELECT upper(s) AS u, stddev(i) AS a, var_pop(f) AS b, corr(i, f) AS c, covar_samp(i, f) AS d,
               sum(i) FILTER (WHERE flag) AS flagged, sum(i) / count(*) AS share, sum(i) AS t, count(*) AS n
        FROM samples GROUP BY upper(s)""",
}
IN_POSTGRES = {
    "days of a zone": """
        SELECT date_trunc('day', at AT TIME ZONE 'Europe/Berlin') AS w, count(*) AS n, sum(d) AS t FROM samples GROUP BY 1""",
    "months of a zone": "SELECT date_trunc('month', at, 'Europe/Berlin') AS w, count(i) AS n FROM samples GROUP BY w",
    "weeks": "SELECT s, date_trunc('week', at) AS w, max(i) AS high FROM samples GROUP BY s, w",
    "quarters of an hour": """
        SELECT date_bin('15 minutes', at, TIMESTAMP '2001-01-01') AS w, min(d) AS low, count(*) FILTER (WHERE i > 0) AS n
        FROM samples GROUP BY w""",
    "moments": """
        SELECT s, avg(i) AS m, stddev(i) AS a, var_pop(f) AS b, corr(i, f) AS c, bool_or(flag) AS o, bool_and(flag) AS x
        FROM samples WHERE i BETWEEN -40 AND 40 GROUP BY s""",
}


def events() -> list[Sample]:
    """Events of two days, each field but the time null at times; no sum of doubles depends on its order."""
    dice = random.Random(5)

    def drawn(value: Any) -> Any:
        return None if dice.random() < 0.15 else value

    return [
        Sample(
            # No two are ten minutes apart, which is not a multiple of seven seconds: there sessions differ, as translations say.
            at=BEGIN + timedelta(seconds=7 * dice.randrange(2 * 86400 // 7)),
            flag=drawn(dice.random() < 0.5),
            i=drawn(dice.randrange(-50, 50)),
            f=drawn(dice.randrange(-400, 400) / 4),
            d=drawn(Decimal(dice.randrange(-9999, 9999)) / 100),
            s=drawn(dice.choice(["a", "A", "b", "ä", "", " "])),
        )
        for _ in range(400)
    ]


EVENTS = events()


def is_same(ours: Any, theirs: Any) -> bool:
    """Whether two values are equal; doubles and what an engine divides may differ in the last digits."""
    if isinstance(theirs, datetime):
        return datetime.fromisoformat(ours) == theirs.astimezone(UTC)
    if isinstance(ours, str) and isinstance(theirs, Decimal | int):
        return Decimal(ours) == theirs
    if isinstance(ours, float):
        return theirs is not None and isclose(ours, theirs, rel_tol=1e-12, abs_tol=1e-9)
    return type(ours) is type(theirs) and ours == theirs


def differences(view: View, rows: Sequence[dict[str, Any]]) -> list[str]:
    """What differs between the view's answer and an engine's rows, whose windows begin at `w`."""
    names = [*view.keys, *(["w"] if "w" in rows[0] else [])]
    ours = [row | {"w": datetime.fromisoformat(row["window_start"])} if "w" in names else row for row in answer(view, EVENTS)]
    by_key = {tuple(row[name] for name in names): row for row in rows}
    own = {tuple(row[name] for name in names): row for row in ours}
    if own.keys() != by_key.keys() or len(own) < len(ours) or len(by_key) < len(rows):
        return [f"{len(own)} and {len(by_key)} rows, of which one has {own.keys() ^ by_key.keys()}"]
    values = [(key, name, own[key][name], by_key[key][name]) for key in own for name in view.measures]
    return [f"{key} {name}: {mine}, {theirs}" for key, name, mine, theirs in values if not is_same(mine, theirs)]


@pytest.mark.slow
@pytest.mark.parametrize("name", IN_SPARK)
def test_spark_answers_its_query_so(spark: SparkSession, name: str) -> None:
    source = view_of("spark", IN_SPARK[name]).source
    spark.createDataFrame(events_table(source, EVENTS)).createOrReplaceTempView("samples")
    rows = [row.asDict() for row in spark.sql(IN_SPARK[name]).collect()]
    for row in rows:
        if "w" in row:
            begin = row["w"] if isinstance(row["w"], datetime) else row["w"]["start"]
            row["w"] = begin.astimezone(UTC)
    assert differences(view_of("spark", IN_SPARK[name]), rows) == []


def test_a_session_of_spark_goes_on_after_exactly_the_gap_as_the_translation_says(spark: SparkSession) -> None:
    query = "SELECT session_window(at, '10 minutes') AS w, count(*) AS n FROM samples GROUP BY session_window(at, '10 minutes')"
    two = [Sample(at=BEGIN), Sample(at=BEGIN + timedelta(minutes=10))]
    view = view_of("spark", query)
    spark.createDataFrame(events_table(view.source, two)).createOrReplaceTempView("samples")
    assert [row["n"] for row in spark.sql(query).collect()] == [2]
    assert [row["n"] for row in answer(view, two)] == [1, 1]
    (note,) = [note for note in translate(query, "query.sql", "spark", "query").notes if note.startswith("Check: ")]
    assert note == "Check: an event exactly the gap after the last event begins a session here, and continues it in spark."


@needs_postgres
@pytest.mark.parametrize("name", IN_POSTGRES)
def test_postgresql_answers_its_query_so(postgres: Postgres, name: str) -> None:
    columns = "at timestamptz, flag boolean, i bigint, f double precision, d numeric(38, 2), s text"
    fields = [column.split()[0] for column in columns.split(", ") if column[0] != "2"]
    texts = [{field: getattr(event, field) for field in fields} for event in EVENTS]
    rows_in = json.dumps(texts, default=str).replace("'", "''")
    table = f"WITH samples AS (SELECT * FROM json_to_recordset('{rows_in}') AS t({columns}))"
    found = json.loads(postgres.value(f"{table} SELECT json_agg(q) FROM ({IN_POSTGRES[name]}) AS q"), parse_float=Decimal)
    for row in found:
        if "w" in row:
            begin = datetime.fromisoformat(row["w"])
            # A time without a zone is what a clock in Berlin shows.
            row["w"] = (begin if begin.tzinfo else begin.replace(tzinfo=BERLIN)).astimezone(UTC)
    assert differences(view_of("postgres", IN_POSTGRES[name]), found) == []
