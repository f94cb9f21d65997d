"""The engine reaches nothing outside, depends on nothing outside, and keeps nothing that is not lent to it."""

from concurrent.futures import ThreadPoolExecutor

import duckdb
import pyarrow as pa
import pytest

from views import engine


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


def test_a_table_is_lent_until_another_takes_its_name_or_it_is_taken_back() -> None:
    first, second = pa.table({"x": [1]}), pa.table({"x": [2, 3]})
    assert engine.query("SELECT sum(x) AS s FROM lent", {"lent": first})["s"].to_pylist() == [1]
    assert engine.query("SELECT sum(x) AS s FROM lent", {"lent": second})["s"].to_pylist() == [5]
    engine.take_back("lent")
    with pytest.raises(duckdb.CatalogException):
        engine.query("SELECT * FROM lent", {})
