#!/usr/bin/env bash
# deltalake 1.6.6 (delta-rs) writes the bounds of decimals into the log as floats of 17 digits. Its own dataset for PyArrow turns
# such a bound into a NULL decimal, so that a condition on the column finds no row of the file; Spark 4.2.0 with Delta 4.4.0 reads
# the rounded bound and skips the file. Both give no row for a value that both find without the statistics. The bounds of floats
# leave out NaN, which Spark orders above all numbers: `share > 2` skips a file whose NaN Spark finds by `share + 0 > 2`.
# Needs Java 17. Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check \
    deltalake==1.6.6 pyarrow==26.0.1 pyspark==4.2.0
cd "$work"
"$work/venv/bin/python" - 2>log <<'PYTHON' || { tail -n 20 log >&2; exit 1; }
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

cents = Decimal("12345678901234567890.12")
rows = pa.table({"cents": pa.array([cents], pa.decimal128(38, 2)), "share": [float("nan")]})
rows = pa.concat_tables([rows, pa.table({"cents": pa.array([cents + 1], pa.decimal128(38, 2)), "share": [1.0]})])
write_deltalake("table", rows)
log = [json.loads(line) for line in Path("table/_delta_log/00000000000000000000.json").read_text().splitlines()]
bounds = next(json.loads(entry["add"]["stats"]) for entry in log if "add" in entry)
arrow = DeltaTable("table").to_pyarrow_dataset().to_table(filter=ds.field("cents") == cents).num_rows

spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.jars.packages", "io.delta:delta-spark_4.2_2.13:4.4.0")
    .config("spark.jars.ivy", str(Path("ivy").resolve()))
    .config("spark.ui.enabled", "false")
    .config("spark.ui.showConsoleProgress", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.sql.shuffle.partitions", "1")
    .config("spark.databricks.delta.snapshotPartitions", "1")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    .getOrCreate()
)


def counted(condition: str) -> int:
    return spark.sql(f"SELECT count(*) FROM delta.`{Path('table').resolve()}` WHERE {condition}").collect()[0][0]


conditions = (f"cents = {cents}BD", f"cents + 0 = {cents}BD", "share > 2D", "share + 0 > 2D")
found = [counted(condition) for condition in conditions]
spark.stop()
print("deltalake 1.6.6: bounds", bounds["minValues"], bounds["maxValues"])
print("PyArrow's dataset:", arrow, "rows; Spark 4.2.0:", dict(zip(conditions, found)))
raise SystemExit(
    (bounds["minValues"]["cents"], bounds["maxValues"]["share"], arrow, found)
    != (1.2345678901234567e19, 1.0, 0, [0, 1, 0, 1])
)
PYTHON
