#!/usr/bin/env bash
# fastavro 1.13.1 rounds an Avro decimal that has more digits than its schema's precision, half to even, without an error. The
# bytes hold the unscaled integer whole, and the specification leaves enforcing the precision to the writer; Avro's Java library
# returns all digits. Seen: unscaled 123456 as decimal(4, 2) is 1235, not 1234.56; 123450 is 1234, not 1234.50.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check fastavro==1.13.1
"$work/venv/bin/python" - <<'PYTHON'
from decimal import Decimal
from io import BytesIO

import fastavro


def read(unscaled: int) -> Decimal:
    def schema(amount):
        return fastavro.parse_schema({"type": "record", "name": "Payment", "fields": [{"name": "amount", "type": amount}]})

    written = BytesIO()
    fastavro.schemaless_writer(written, schema("bytes"), {"amount": unscaled.to_bytes(4, "big", signed=True)})
    written.seek(0)
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    return fastavro.schemaless_reader(written, schema(decimal), None)["amount"]


seen = [str(read(unscaled)) for unscaled in (1234, 123456, 123450)]
print("fastavro", fastavro.__version__, "reads 1234, 123456, 123450 as decimal(4, 2):", *seen)
raise SystemExit(seen != ["12.34", "1235", "1234"])
PYTHON
