#!/usr/bin/env bash
# deltalake 1.6.6 takes CommitProperties with an application transaction, and loses it without an error in two places. A writer that
# stores its progress as `txn` then repeats work, or waits for ever:
#   * a merge or a delete that changes no row makes no commit, while an append of no rows makes one
#   * `optimize.compact` makes the commit with the metadata of the same properties, and leaves the transaction out
# Seen as (version, metadata, transaction): merge and delete (0, None, None), append (1, 7, 7), compact (3, 7, None).
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


def compact(table):
    for _ in range(2):
        write_deltalake(table, ROW, mode="append")
    DeltaTable(table.table_uri).optimize.compact(commit_properties=PROGRESS)


seen = []
for step in (merge, delete, append, compact):
    place = f"{sys.argv[1]}/{step.__name__}"
    write_deltalake(place, ROW)
    step(DeltaTable(place))
    after = DeltaTable(place)
    seen.append((after.version(), after.history(1)[0].get("read_up_to"), after.transaction_version("copier")))
    print("deltalake", __version__, step.__name__, "version, metadata, transaction =", *seen[-1])
raise SystemExit(seen != [(0, None, None), (0, None, None), (1, "7", 7), (3, "7", None)])
PYTHON
