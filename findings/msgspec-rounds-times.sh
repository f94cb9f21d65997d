#!/usr/bin/env bash
# msgspec 0.22.0 rounds a time with digits beyond the microsecond to the nearest microsecond, with a carry into the next second,
# day, month or year; Python's own datetime.fromisoformat cuts. So the last 400 ns of October count in November, and a copy of a
# record that a relay has cut to microseconds has another time. The last half microsecond of the year 9999 is refused.
# Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check msgspec==0.22.0
"$work/venv/bin/python" - <<'PYTHON'
from datetime import datetime

import msgspec

written = "2026-10-31T23:59:59.9999996+00:00"
rounded = msgspec.json.decode(f'"{written}"', type=datetime)
cut = datetime.fromisoformat(written)
try:
    last = str(msgspec.json.decode('"9999-12-31T23:59:59.9999999+00:00"', type=datetime))
except msgspec.ValidationError as error:
    last = f"refused: {error}"
print("msgspec", msgspec.__version__, rounded.isoformat(), "Python", cut.isoformat(), "the last of 9999", last)
raise SystemExit(
    (rounded.isoformat(), cut.isoformat(), last.startswith("refused"))
    != ("2026-11-01T00:00:00+00:00", "2026-10-31T23:59:59.999999+00:00", True)
)
PYTHON
