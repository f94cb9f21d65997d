"""The engine reaches nothing outside, depends on nothing outside, and keeps nothing that is not lent to it."""

import subprocess
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pytest

from tandem.infra.folders import ROOT
from tandem.views.arrow import arrays
from tandem.views.sql import engine


def test_the_zone_is_utc_wherever_the_machine_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    with ThreadPoolExecutor(1) as other_thread:  # has a connection of its own
        row = other_thread.submit(
            engine.query, "SELECT current_setting('TimeZone') AS zone, '2026-01-01'::TIMESTAMPTZ AS t", {}
        ).result()
    assert row["zone"].to_pylist() == ["UTC"]
    assert row["t"].to_pylist()[0].isoformat() == "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_text('/etc/hostname')",
        "SELECT * FROM '/etc/hostname'",
        "COPY (SELECT 1) TO '/tmp/tandem_engine_test'",
        "ATTACH '/tmp/tandem_engine_test.db'",
        "SET enable_external_access = true",
        "SET TimeZone = 'Europe/Oslo'",
        "INSTALL httpfs",
    ],
)
def test_nothing_outside_is_reached_and_nothing_is_unlocked(sql: str) -> None:
    with pytest.raises(duckdb.Error):
        engine.query(sql, {})


def test_a_variable_of_the_caller_is_no_table() -> None:
    secret = pa.table({"x": [1]})
    assert secret.num_rows
    with pytest.raises(duckdb.CatalogException):
        engine.query("SELECT * FROM secret", {})


def test_a_statement_reads_what_it_is_lent_and_keeps_nothing() -> None:
    first, second, words = pa.table({"x": [1]}), pa.table({"x": [2, 3]}), pa.table({"x": ["a", "b"], "y": [1, None]})
    sql = "SELECT min(x) AS least, count(*) AS n FROM lent"
    for table, least, n in [(first, 1, 1), (second, 2, 2), (words, "a", 2), (second.slice(1), 3, 1), (first.slice(1), None, 0)]:
        assert engine.query(sql, {"lent": table}).to_pylist() == [{"least": least, "n": n}]
    kept = weakref.ref(words)
    del words, table
    assert kept() is None
    with pytest.raises(duckdb.CatalogException):
        engine.query("SELECT * FROM lent", {})


def test_a_statement_that_fails_does_not_fail_for_other_rows() -> None:
    sql = "SELECT (x || 'Z')::TIMESTAMPTZ AS t FROM lent"
    right, wrong = pa.table({"x": ["2026-01-01 00:00:00"]}), pa.table({"x": ["today"]})
    assert engine.query(sql, {"lent": right}).num_rows == 1
    with pytest.raises(duckdb.ConversionException):
        engine.query(sql, {"lent": wrong})
    assert engine.query(sql, {"lent": right}).num_rows == 1


def test_two_names_of_one_schema_are_two_tables() -> None:
    one, other = pa.table({"x": [1, 2]}), pa.table({"x": [2, 3]})
    for lent in ({"one": one, "other": other}, {"one": other, "other": one}):
        both = engine.query("SELECT one.x AS x, count(*) AS n FROM one SEMI JOIN other USING (x) GROUP BY 1", lent)
        assert both.to_pylist() == [{"x": 2, "n": 1}]
        assert engine.query("SELECT list(x ORDER BY x) AS x FROM one", lent).to_pylist() == [{"x": lent["one"]["x"].to_pylist()}]


def test_more_statements_and_schemas_than_are_kept_are_right_too() -> None:
    one = pa.table({"x": [1]})

    def ask() -> None:
        for number in range(engine.SCHEMAS + 2):
            table = pa.table({f"x{number}": [number]})
            assert engine.query(f"SELECT x{number} + 1 AS n FROM lent", {"lent": table})["n"].to_pylist() == [number + 1]
        for number in (*range(9), 0):
            sql = f"SELECT x + {number} AS n FROM lent WHERE '{'-' * (engine.PLANNED // 3)}' <> ''"
            assert engine.query(sql, {"lent": one})["n"].to_pylist() == [number + 1]
            mine = engine._engine()
            assert mine.characters == sum(map(len, mine.planned)) <= engine.PLANNED

    with ThreadPoolExecutor(1) as other_thread:  # has an engine of its own
        other_thread.submit(ask).result()


def test_nothing_is_said_when_a_process_ends() -> None:
    """DuckDB complains on stderr of what is registered in a connection that is never closed."""
    code = "import pyarrow as pa; from tandem.views.sql import engine; engine.query('FROM lent', {'lent': pa.table({'x': [1]})})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


DECIMALS = pa.table({"x": ["1", "2"], "large": pa.array([1, 2], pa.decimal256(76, 2))})


IN_A_KERNEL = """
import sys
from types import ModuleType, SimpleNamespace

sys.modules["ipywidgets"] = None
sys.modules["IPython"] = ModuleType("IPython")
sys.modules["IPython"].get_ipython = lambda: SimpleNamespace(config={"IPKernelApp": {}})

import duckdb

from tandem.serving.sql.database import connect
from tandem.serving.sql.limits import StatementLimits
from tandem.views.sql import engine

try:
    duckdb.connect().execute("SET enable_progress_bar = false")
except duckdb.InvalidInputException as error:
    print("ipywidgets" in str(error))
print(engine.query("SELECT 1 AS one", {})["one"].to_pylist(), connect(StatementLimits()).execute("SELECT 2").fetchall())
"""


def test_it_runs_in_a_kernel_of_jupyter_without_widgets() -> None:
    """DuckDB takes a program without a file for a notebook, if IPython has the settings of a kernel."""
    done = subprocess.run([sys.executable, "-c", IN_A_KERNEL], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.split("\n") == ["True", "[1] [(2,)]", ""], done.stderr


@pytest.mark.slow
def test_a_long_statement_prints_nothing() -> None:
    """DuckDB's progress bar comes after two seconds."""
    long = "SELECT sum(i * i % 7) FROM range(600_000_000) AS numbers(i)"
    code = "import time; from tandem.views.sql import engine; t = time.time(); "
    code += f"engine.query({long!r}, {{}}); assert time.time() - t > 2"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT y FROM lent", pa.table({"x": ["1", "2"]})),
        ("SELECT x FROM lent", DECIMALS),
        ("SELECT x FROM lent", DECIMALS.slice(0, 0)),
        ("SELECT nothing_of_the_kind(x) FROM lent", pa.table({"x": ["1"]})),
        ("SELECT x + FROM lent", pa.table({"x": [1, 2, 3]})),
        ("SELECT x FROM borrowed", pa.table({"x": [1]})),
    ],
    ids=["no column", "no type for it", "no type and no rows", "no function", "no SQL", "no table"],
)
def test_a_statement_that_fails_without_rows_is_no_failure_of_them(sql: str, rows: pa.Table) -> None:
    with pytest.raises(duckdb.Error):
        list(engine.halved(sql, "lent", rows))


@pytest.mark.parametrize("wrong", [set(), {0}, {6}, {2, 3}, set(range(7))], ids=str)
def test_rows_for_which_a_statement_fails_are_found_one_by_one(wrong: set[int]) -> None:
    rows = pa.table({"x": ["no number" if n in wrong else str(n) for n in range(7)]})
    pieces = list(engine.halved("SELECT CAST(x AS INTEGER) AS n FROM lent", "lent", rows))
    assert pa.concat_tables([piece for piece, _ in pieces]).equals(rows)
    assert [piece["x"].to_pylist() for piece, result in pieces if result is None] == [["no number"]] * len(wrong)
    assert [n for _, result in pieces if result is not None for n in result["n"].to_pylist()] == sorted({*range(7)} - wrong)


def test_what_a_row_breaks_for_all_others_is_no_failure_of_theirs() -> None:
    """As a DuckDB is after an internal error: it refuses every statement from then on."""
    broken: list[str] = []

    def made(rows: pa.Table) -> pa.Table:
        if broken or "breaks" in rows["x"].to_pylist():
            broken.append("for good")
            raise duckdb.FatalException("invalidated")
        return rows

    with pytest.raises(duckdb.FatalException):
        list(arrays.halved(made, pa.table({"x": ["a", "breaks", "b"]}), engine._is_of_rows))
