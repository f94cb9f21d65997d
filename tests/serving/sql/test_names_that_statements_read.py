"""The views that a statement reads are those that DuckDB names, also where it would have to know their columns to name them."""

import duckdb
import pytest

from tandem.serving.sql.statement import views_named

AS_DUCKDB_SAYS = (
    "SELECT * FROM v, V, (SELECT * FROM w)",
    "WITH v AS (SELECT * FROM v) SELECT * FROM v",
    "WITH a AS (SELECT * FROM v), b AS (SELECT * FROM a, w) SELECT * FROM b",
    "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a, b",
    "WITH RECURSIVE a AS (SELECT n FROM v UNION ALL SELECT n FROM a) SELECT * FROM a",
    "WITH RECURSIVE a AS (SELECT n FROM a UNION ALL SELECT n FROM a) SELECT * FROM a",
    "SELECT * FROM (WITH x AS (SELECT * FROM y) SELECT * FROM x) q, x",
    "WITH A AS (SELECT 1) SELECT * FROM a",
    "WITH a AS MATERIALIZED (SELECT 1) SELECT (SELECT max(n) FROM a), (WITH b AS (FROM a) SELECT max(n) FROM b), (FROM b)",
    "SELECT 1 FROM v WHERE EXISTS (WITH v AS (SELECT 2) SELECT * FROM v)",
    "WITH a AS (WITH b AS (SELECT * FROM c) SELECT * FROM b) SELECT * FROM a, b",
    "SELECT * FROM a UNION (WITH a AS (SELECT 1) SELECT * FROM a)",
    "WITH a AS (SELECT 1), a2 AS (SELECT * FROM a) (SELECT * FROM a2 UNION SELECT * FROM v) ORDER BY 1",
    "DESCRIBE v",
    "SUMMARIZE SELECT * FROM v",
    "TABLE v",
    "VALUES (1)",
    "SELECT * FROM v AS w(a), LATERAL (SELECT * FROM x)",
    "PIVOT v ON k IN (1) USING count(*)",
    "WITH p AS (PIVOT v ON k IN (1) USING count(*)) SELECT * FROM p",
    "SELECT * FROM v TABLESAMPLE 10%",
)


@pytest.mark.parametrize("statement", AS_DUCKDB_SAYS)
def test_names_equal_those_of_duckdb(statement: str) -> None:
    connection = duckdb.connect()
    found = {name.casefold() for name in views_named(connection, statement)}
    assert found == {name.casefold() for name in connection.get_table_names(statement)}


@pytest.mark.parametrize(
    ("statement", "names"),
    [
        ("SELECT * FROM v JOIN w USING (k)", ["v", "w"]),
        ("SELECT * FROM v NATURAL JOIN w", ["v", "w"]),
        ("SELECT COLUMNS('n.*') FROM v", ["v"]),
        ("WITH v AS (FROM v JOIN x USING (k)) SELECT * FROM v JOIN w USING (k)", ["v", "w", "x"]),
        ("WITH RECURSIVE t AS (SELECT 1 n UNION SELECT n + 1 FROM t JOIN v USING (n)) FROM t JOIN w USING (n)", ["v", "w"]),
    ],
)
def test_columns_need_not_be_known(statement: str, names: list[str]) -> None:
    assert views_named(duckdb.connect(), statement) == names
