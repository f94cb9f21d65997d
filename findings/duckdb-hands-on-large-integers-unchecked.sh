#!/usr/bin/env bash
# DuckDB 2.0.0 gives HUGEINT and UHUGEINT to Arrow as decimal128(38, 0) without a look at the value: 2^127 - 1 has 39 digits, so
# PyArrow calls the column invalid, but only when asked; 2^128 - 1 becomes -1, which is valid, and which DuckDB reads back as -1.
# COPY writes both types to Parquet as DOUBLE: the sum of a BIGINT column, a HUGEINT, loses its last digits above 2^53, while the
# same query to Arrow keeps them.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.0 pyarrow==26.0.1
cd "$work"
"$work/venv/bin/python" - <<'PYTHON'
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

database = duckdb.connect()
largest = database.sql(f"SELECT {2**127 - 1}::HUGEINT AS h, {2**128 - 1}::UHUGEINT AS u").to_arrow_table()
try:
    largest.select(["h"]).validate(full=True)
    valid = True
except pa.ArrowInvalid:
    valid = False
largest.select(["u"]).validate(full=True)
database.register("largest", largest)
back = int(database.sql("SELECT u FROM largest").fetchall()[0][0])

summed = "SELECT sum(cents) AS cents FROM (VALUES (9007199254740992::BIGINT), (1::BIGINT)) AS sales(cents)"
arrow = int(database.sql(summed).to_arrow_table()["cents"][0].as_py())
database.sql(f"COPY ({summed}) TO 'sums.parquet'")
file = pq.read_table("sums.parquet")["cents"]
print("duckdb", duckdb.__version__, "2^127 - 1 valid:", valid, "2^128 - 1:", int(largest["u"][0].as_py()), "read back:", back)
print("sum of BIGINT, to Arrow:", arrow, "to Parquet:", file.type, int(file[0].as_py()))
raise SystemExit(
    (valid, int(largest["u"][0].as_py()), back, arrow, str(file.type), int(file[0].as_py()))
    != (False, -1, -1, 2**53 + 1, "double", 2**53)
)
PYTHON
