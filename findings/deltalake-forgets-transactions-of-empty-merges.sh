#!/usr/bin/env bash
# deltalake 1.6.6: a merge or a delete that changes no row makes no commit and reports no error, so the application transaction and
# the metadata that came with it are lost: a writer that stores its progress as `txn` repeats or waits for ever. An append of no rows
# does make the commit. Seen: after each, versions 0, 0 and 1, and transaction versions None, None and 7.
# Exits with 1 if the behaviour is another one.
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


def merge(table):
    merged = table.merge(ROW, "t.k = s.k", source_alias="s", target_alias="t", commit_properties=PROGRESS)
    merged.when_matched_update_all("t.n <> s.n").when_not_matched_insert_all().execute()


def delete(table):
    table.delete("k = 'z'", commit_properties=PROGRESS)


def append(table):
    write_deltalake(table, ROW.slice(0, 0), mode="append", commit_properties=PROGRESS)


seen = []
for step in (merge, delete, append):
    place = f"{sys.argv[1]}/{step.__name__}"
    write_deltalake(place, ROW)
    step(DeltaTable(place))
    after = DeltaTable(place)
    seen.append((after.version(), after.transaction_version("copier")))
    print("deltalake", __version__, step.__name__, "without a changed row: version, transaction =", *seen[-1])
raise SystemExit(seen != [(0, None), (0, None), (1, 7)])
PYTHON
