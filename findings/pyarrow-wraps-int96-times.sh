#!/usr/bin/env bash
# pyarrow 26.0.1 reads Parquet's INT96 times, which Spark writes by default, as nanoseconds of 64 bits, and years before 1677 or
# after 2262 wrap without an error. Seen: 9999-12-31T23:59:59.999999 is read as 1816-03-30T05:56:08.066276376, and 1500-01-01 as
# 2084-07-20. With coerce_int96_timestamp_unit="us" both are read as they were written.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$work/venv/bin/python" - <<'PYTHON'
from datetime import datetime
from io import BytesIO

import pyarrow as pa
from pyarrow import parquet

written = ["9999-12-31 23:59:59.999999", "1500-01-01 00:00:00.000000"]
file = BytesIO()
column = pa.array(map(datetime.fromisoformat, written), pa.timestamp("us"))
parquet.write_table(pa.table({"at": column}), file, use_deprecated_int96_timestamps=True)


def read(**options):
    file.seek(0)
    return parquet.read_table(file, use_threads=False, pre_buffer=False, **options)["at"].cast(pa.string()).to_pylist()


by_default, in_microseconds = read(), read(coerce_int96_timestamp_unit="us")
print("pyarrow", pa.__version__, "reads", by_default, "and in microseconds", in_microseconds)
raise SystemExit(
    by_default != ["1816-03-30 05:56:08.066276376", "2084-07-20 23:34:33.709551616"] or in_microseconds != written
)
PYTHON
