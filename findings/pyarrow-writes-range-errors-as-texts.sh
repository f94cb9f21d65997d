#!/usr/bin/env bash
# pyarrow 26.0.1 casts a time of day or date that does not exist to a text about it, without an error, so that a CSV or JSON made
# of the column has that text as a value. Seen: time64 -1 becomes "<value out of range: -1>", also after it was read from a
# Parquet file, and date32 -800000000 becomes "<value out of range: -800000000>".
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$work/venv/bin/python" - <<'PYTHON'
from io import BytesIO

import pyarrow as pa
from pyarrow import csv, parquet

table = pa.table({"opens": pa.array([-1], pa.time64("us"))})
file = BytesIO()
parquet.write_table(table, file)
file.seek(0)
again = parquet.read_table(file, use_threads=False, pre_buffer=False)["opens"].cast(pa.string()).to_pylist()
days = pa.array([-800_000_000], pa.date32()).cast(pa.string()).to_pylist()
rows = BytesIO()
csv.write_csv(table, rows)
print("pyarrow", pa.__version__, "makes", again, days, "and writes the CSV", rows.getvalue())
raise SystemExit(
    again != ["<value out of range: -1>"]
    or days != ["<value out of range: -800000000>"]
    or b"<value out of range: -1>" not in rows.getvalue()
)
PYTHON
