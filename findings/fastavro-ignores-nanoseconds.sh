#!/usr/bin/env bash
# fastavro 1.13.1 knows no timestamp-nanos, which Avro 1.12 added: its reader gives the bare number, where timestamp-micros and
# timestamp-millis give a datetime, and its writer refuses a datetime. So one record has times of two types.
# Seen: the same instant is 1793534400123456789, an int, beside a datetime.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check fastavro==1.13.1
"$work/venv/bin/python" - <<'PYTHON'
from datetime import UTC, datetime
from io import BytesIO

import fastavro

NANOS = 1_793_534_400_123_456_789
SCHEMA = fastavro.parse_schema(
    {
        "type": "record",
        "name": "Seen",
        "fields": [
            {"name": "micros", "type": {"type": "long", "logicalType": "timestamp-micros"}},
            {"name": "nanos", "type": {"type": "long", "logicalType": "timestamp-nanos"}},
        ],
    }
)
written = BytesIO()
fastavro.schemaless_writer(written, SCHEMA, {"micros": NANOS // 1000, "nanos": NANOS})
written.seek(0)
row = fastavro.schemaless_reader(written, SCHEMA, None)
try:
    fastavro.schemaless_writer(BytesIO(), SCHEMA, {"micros": 0, "nanos": datetime.now(UTC)})
    refused = "nothing"
except TypeError as error:
    refused = type(error).__name__
print("fastavro", fastavro.__version__, "reads", row["micros"].isoformat(), "and", row["nanos"], "- a datetime is refused by", refused)
raise SystemExit((type(row["micros"]), row["nanos"], refused) != (datetime, NANOS, "TypeError"))
PYTHON
