#!/usr/bin/env bash
# DuckDB 2.0's operator // is integer division for integers, and not for decimals: 7.5 // 2 is 3.75, 7 // 2 is 3. So the same
# expression changes its meaning when a column's type becomes a decimal. PostgreSQL's div(7.5, 2) and Spark's 7.5 div 2 are 3.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.0
"$work/venv/bin/python" - <<'PYTHON'
import duckdb

row = duckdb.sql("SELECT 7 // 2, 7.5::DECIMAL(10, 2) // 2, -7 // 2, typeof(7.5::DECIMAL(10, 2) // 2)").fetchall()[0]
print("duckdb", duckdb.__version__, "gives 7 // 2, 7.5 // 2, -7 // 2 and the type of the second:", *row)
raise SystemExit([str(value) for value in row] != ["3", "3.75", "-3", "DOUBLE"])
PYTHON
