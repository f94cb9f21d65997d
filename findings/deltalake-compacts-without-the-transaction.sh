#!/usr/bin/env bash
# deltalake 1.6.6: `optimize.compact` takes CommitProperties with an application transaction, writes their metadata, and leaves the
# transaction out. Seen: the commit's history has the metadata, and transaction_version is None; the same properties with an append
# give 7. Exits with 1 if the behaviour is another one.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.0
"$work/venv/bin/python" - "$work" <<'PYTHON'
import sys

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, __version__, write_deltalake

PROGRESS = CommitProperties(custom_metadata={"read_up_to": "7"}, app_transactions=[Transaction("copier", 7)])
ROW = pa.table({"k": ["a"], "n": [1]})
compacted, appended = f"{sys.argv[1]}/compacted", f"{sys.argv[1]}/appended"
for _ in range(3):
    write_deltalake(compacted, ROW, mode="append")
DeltaTable(compacted).optimize.compact(commit_properties=PROGRESS)
write_deltalake(appended, ROW)
write_deltalake(appended, ROW, mode="append", commit_properties=PROGRESS)
seen = []
for place in (compacted, appended):
    table = DeltaTable(place)
    newest = table.history(1)[0]
    seen.append((newest.get("read_up_to"), table.transaction_version("copier")))
    print("deltalake", __version__, newest["operation"], "metadata, transaction =", *seen[-1])
raise SystemExit(seen != [("7", None), ("7", 7)])
PYTHON
