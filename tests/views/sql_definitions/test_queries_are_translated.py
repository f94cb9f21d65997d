"""A query of Flink, Spark or PostgreSQL becomes the view that counts the same, or the reason why there is none is said."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.views.errors import DefinitionError
from tandem.views.measures import Measure, count, derived, mean, stddev, total
from tandem.views.sql_definitions.translate import translate
from tandem.views.view import View
from tandem.views.windows import AllTime, Window, calendar, hopping, session, tumbling
from tests.samples import SAMPLES
from tests.views.sql_definitions.test_sql_means_its_python import SOURCE, namespace_of

HOUR = "INTERVAL '1' HOUR"
ONE: dict[str, Measure] = {"n": count()}
UNNAMED: dict[str, Measure] = {"count": count(), "sum_i": total("i")}
HOPS = hopping(timedelta(hours=1), every=timedelta(minutes=10))
QUERIES: list[tuple[str, str, dict[str, str], Window, dict[str, Measure]]] = [
    ("flink", f"SELECT s, COUNT(*) AS n FROM samples GROUP BY s, TUMBLE(at, {HOUR})", {"s": "s"}, tumbling(hours=1), ONE),
    (
        "flink",
        (
            f"SELECT s, window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE samples, DESCRIPTOR(at), {HOUR})) "
            "GROUP BY s, window_start, window_end"
        ),
        {"s": "s"},
        tumbling(hours=1),
        ONE,
    ),
    (
        "flink",
        (
            f"SELECT window_start AS ws, COUNT(*) AS n FROM HOP(TABLE samples, DESCRIPTOR(at), INTERVAL '10' MINUTE, {HOUR}) "
            "GROUP BY window_start, window_end"
        ),
        {},
        HOPS,
        ONE,
    ),
    (
        "flink",
        (
            "INSERT INTO sink SELECT SESSION_START(at, INTERVAL '5' MINUTE) AS b, COUNT(*) AS n FROM samples "
            "GROUP BY SESSION(at, INTERVAL '5' MINUTE)"
        ),
        {},
        session(minutes=5),
        ONE,
    ),
    ("flink", f"SELECT s, COUNT(*), SUM(i) FROM samples GROUP BY s, TUMBLE(at, {HOUR})", {"s": "s"}, tumbling(hours=1), UNNAMED),
    ("flink", f"SELECT s, COUNT(1), SUM(i) FROM samples GROUP BY s, TUMBLE(at, {HOUR})", {"s": "s"}, tumbling(hours=1), UNNAMED),
    (
        "spark",
        "SELECT window, s, count(1) AS n FROM samples GROUP BY window(at, '1 hour'), s",
        {"s": "s"},
        tumbling(hours=1),
        ONE,
    ),
    ("spark", "SELECT count(*) AS n FROM samples GROUP BY window(at, '1 hour', '10 minutes')", {}, HOPS, ONE),
    (
        "spark",
        "SELECT x.s, count(*) n FROM samples x GROUP BY x.s, session_window(x.at, '5 minutes')",
        {"s": "s"},
        session(minutes=5),
        ONE,
    ),
    ("spark", "SELECT count_if(i > 2) AS n FROM samples", {}, AllTime(), {"n": count(filter="i > 2")}),
    ("spark", "SELECT date_trunc('HOUR', at) AS h, count(*) AS n FROM samples GROUP BY 1", {}, tumbling(hours=1), ONE),
    ("postgres", "SELECT date_trunc('day', at) AS d, count(*) AS n FROM samples GROUP BY d", {}, tumbling(days=1), ONE),
    (
        "postgres",
        "SELECT date_trunc('week', at) AS d, count(*) AS n FROM samples GROUP BY 1",
        {},
        calendar("week", zone="UTC"),
        ONE,
    ),
    (
        "postgres",
        "SELECT date_trunc('month', at, 'Europe/Berlin') AS d, count(*) AS n FROM samples GROUP BY 1",
        {},
        calendar("month", zone="Europe/Berlin"),
        ONE,
    ),
    (
        "postgres",
        "CREATE VIEW x AS SELECT date_trunc('day', at AT TIME ZONE 'Europe/Berlin') AS d, count(*) AS n FROM samples GROUP BY 1",
        {},
        calendar("day", zone="Europe/Berlin"),
        ONE,
    ),
    (
        "postgres",
        "SELECT date_bin('15 minutes', at, TIMESTAMP '2001-01-01') AS b, count(*) AS n FROM samples GROUP BY b",
        {},
        tumbling(minutes=15),
        ONE,
    ),
    *(
        ("postgres", f"SELECT time_bucket({bucket}) AS b, count(*) AS n FROM samples GROUP BY b", {}, window, ONE)
        for bucket, window in (
            ("'15 minutes', at", tumbling(minutes=15)),
            ("INTERVAL '1 hour', at", tumbling(hours=1)),
            ("'7 days', at", calendar("week", zone="UTC")),
            ("'1 month', at", calendar("month", zone="UTC")),
            ("'1 day', at, 'Europe/Berlin'", calendar("day", zone="Europe/Berlin")),
        )
    ),
    (
        "postgres",
        "SELECT avg(i), stddev(i) AS d, sum(f) / count(*) AS m, sum(f) AS t, count(*) AS n FROM samples",
        {},
        AllTime(),
        {"avg_i": mean("i"), "d": stddev("i"), "m": derived("t / n"), "t": total("f"), "n": count()},
    ),
    (
        "postgres",
        "SELECT date_trunc('year', at) AS y, count(*) AS n FROM samples GROUP BY y",
        {"y": "DATE_TRUNC('YEAR', \"at\")"},
        AllTime(),
        ONE,
    ),
]
REFUSED = {
    (
        "flink",
        "SELECT sum(a) n FROM TABLE(CUMULATE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR, INTERVAL '1' DAY)) GROUP BY window_end",
    ): "cumulative",
    (
        "flink",
        "SELECT count(*) AS n FROM TABLE(TUMBLE(TABLE t PARTITION BY a, DESCRIPTOR(at), INTERVAL '1' HOUR))",
    ): "PARTITION BY",
    ("flink", "SELECT window_start, count(*) AS n FROM t GROUP BY window_start"): "the query has no window",
    ("flink", "SELECT count(*) AS n FROM t GROUP BY TUMBLE(at, INTERVAL '1' HOUR, TIME '00:10:00')"): "without an offset",
    ("spark", "SELECT count(*) AS n FROM t GROUP BY window(at, '1 hour', '1 hour', '5 minutes')"): "start offset",
    ("spark", "SELECT k, count(*) AS n FROM t GROUP BY ROLLUP (k)"): "ROLLUP",
    ("spark", "SELECT k, count(*) AS n FROM t GROUP BY k WITH CUBE"): "CUBE",
    ("spark", "SELECT a.k, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY a.k"): "a join",
    ("spark", "SELECT count(*) AS n FROM t LATERAL VIEW explode(xs) AS x"): "LATERAL",
    ("postgres", "SELECT k, count(DISTINCT c) AS n FROM t GROUP BY k"): "approx_count_distinct(c)",
    ("postgres", "SELECT k, count(*) AS n FROM t GROUP BY k HAVING count(*) > 1"): "HAVING",
    ("postgres", "SELECT k, count(*) AS n FROM t GROUP BY k ORDER BY n LIMIT 3"): "",
    ("postgres", "SELECT k, count(*) AS n FROM (SELECT * FROM t) AS s GROUP BY k"): "subquer",
    ("postgres", "WITH s AS (SELECT * FROM t) SELECT count(*) AS n FROM s"): "common table expression",
    ("postgres", "SELECT upper(k) AS k, count(*) AS n FROM t GROUP BY k"): "GROUP BY k means the field k",
    ("postgres", "SELECT count(*) AS n FROM t GROUP BY k"): "which SELECT lacks",
    ("postgres", "SELECT k, sum(a) OVER (PARTITION BY k) AS s FROM t"): "OVER",
    ("postgres", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) AS m FROM t"): "neither a measure nor in GROUP BY",
    ("postgres", "SELECT date_bin('7 minutes', at, TIMESTAMP '2001-01-01') AS b, count(*) AS n FROM t GROUP BY b"): "the origin",
    ("postgres", "SELECT time_bucket('5 days', at) AS b, count(*) AS n FROM t GROUP BY b"): "from a Monday",
    ("postgres", "SELECT time_bucket('1 hour', at, 'Asia/Tokyo') AS b, count(*) AS n FROM t GROUP BY b"): "in a zone",
    ("postgres", "SELECT time_bucket('1 hour', at, now()) AS b, count(*) AS n FROM t GROUP BY b"): "without an origin",
    ("postgres", "SELECT count(*), count(*) FROM t"): "two columns have one name",
    ("postgres", "SELECT count(* FROM t"): "has no partner",
    ("postgres", "DELETE FROM t"): "a query begins with SELECT",
    ("spark", "SELECT k, count(*) AS n FROM t TABLESAMPLE (10 PERCENT) GROUP BY k"): "FROM has",
    ("postgres", "SELECT k, count(*) AS n FROM t TABLESAMPLE SYSTEM (10) GROUP BY k"): "FROM has",
    ("spark", "SELECT k, count(*) AS n FROM t VERSION AS OF 3 GROUP BY k"): "FROM has",
    ("flink", "SELECT k, count(*) AS n FROM t FOR SYSTEM_TIME AS OF at GROUP BY k"): "FROM has",
    (
        "flink",
        "SELECT k, count(*) AS n FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(at), INTERVAL '1' HOUR)) GROUP BY k",
    ): "does not group by its window",
}


def view_of(dialect: str, query: str) -> View:
    """The view that the Python of a translation defines, over the samples."""
    text = translate(query, "query.sql", dialect, "query").python
    namespace: dict[str, Any] = {"samples": SAMPLES}
    exec(text, namespace)
    (view,) = (value for value in namespace.values() if isinstance(value, View))
    return view


@pytest.mark.parametrize(("dialect", "query", "keys", "window", "measures"), QUERIES)
def test_a_query_is_its_view(
    dialect: str, query: str, keys: dict[str, str], window: Window, measures: dict[str, Measure]
) -> None:
    assert view_of(dialect, query) == View(SAMPLES, keys=keys, window=window, measures=measures)


@pytest.mark.parametrize(("dialect", "query"), [query[:2] for query in QUERIES])
def test_its_sql_is_the_same_view(dialect: str, query: str) -> None:
    translation = translate(query, "query.sql", dialect, "query")
    twin = namespace_of(SOURCE + translation.sql)[translation.name]
    assert replace(twin, source=SAMPLES) == view_of(dialect, query)


@pytest.mark.parametrize(("dialect", "query", "says"), [(*key, says) for key, says in REFUSED.items()])
def test_a_query_without_a_view_is_refused(dialect: str, query: str, says: str) -> None:
    with pytest.raises(DefinitionError, match=r"query\.sql:") as error:
        translate(query, "query.sql", dialect, "query")
    assert says in str(error.value)


def test_the_tables_name_before_a_field_is_left_out() -> None:
    query = "SELECT o.city, o.address.street AS st, count(*) AS n FROM orders o GROUP BY o.city, o.address.street"
    assert 'SELECT city AS "city",\n    address.street AS "st",' in translate(query, "query.sql", "spark", "query").sql


def test_the_command_prints_the_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "by hour.sql"
    file.write_text(
        "SELECT date_trunc('hour', at) AS h, sum(i) / count(*) AS m, sum(i) AS t, count(*) AS n FROM samples GROUP BY 1"
    )
    assert main(["translate", str(file), "--dialect", "postgres"]) == 0
    python = capsys.readouterr().out
    assert "by_hour = View(" in python
    assert "# Check: `7 / 2` is 3.5 here" in python
    assert "# Check: times are truncated in UTC here" in python
    assert main(["translate", str(file), "--dialect", "postgres", "--sql"]) == 0
    assert "CREATE VIEW by_hour AS" in capsys.readouterr().out
    file.write_text("SELECT 1")
    assert main(["translate", str(file), "--dialect", "postgres"]) == 1
