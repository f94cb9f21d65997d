"""Commits as files of a realtime table: every active file is one commit, with a row for each view and the commit's values in all.

Positions and counts are columns, because the metadata in a Delta log is lost when the log is cleaned up.
"""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pyarrow as pa
from deltalake import DeltaTable

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import unreadable
from tandem.ledger.log import last_records
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import Position
from tandem.ledger.realtime.commits import Commit, Span, TableEnds
from tandem.views.source.watermark import maxima_from_json, maxima_to_json

SCHEMA: Final = pa.schema(
    [
        ("fingerprint", pa.string()),
        ("epoch", pa.int64()),
        ("kind", pa.string()),
        ("start_position", pa.string()),
        ("end_position", pa.string()),
        ("batches", pa.int64()),
        ("looked_up", pa.string()),
        ("counts", pa.string()),
        ("rejected", pa.string()),
        ("maxima", pa.string()),
        ("newest", pa.timestamp("us", "UTC")),
        ("watermark", pa.int64()),
        ("after_final", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("caught_up", pa.timestamp("us", "UTC")),
        ("identities_since", pa.timestamp("us", "UTC")),
        ("last_records", pa.string()),
        ("partial", pa.binary()),
    ]
)
"""One row per view; a commit without views has one row whose fingerprint is null. Mappings are JSON."""

SETTINGS: Final = {
    # No file statistics: no reader prunes files by them, and every commit would have to read them back.
    "delta.dataSkippingNumIndexedCols": "0",
    # The owner makes checkpoints and expires log entries between triggers, not within one.
    "delta.checkpointInterval": "1000000",
    # Every commit and every look lists the log's folder (2 ms for 1000 entries), and two commits a second make 7200 an hour.
    "delta.logRetentionDuration": "interval 15 minutes",
    # Compaction leaves as many tombstones as there were commits: a checkpoint must not carry a week of them.
    "delta.deletedFileRetentionDuration": "interval 15 minutes",
}

_SPAN_COLUMNS: Final = ["epoch", "kind", "start_position", "end_position", "batches", "looked_up"]


def open_or_create(tables: Tables, release: int, source: str) -> DeltaTable:
    """The realtime table of a release and source, created empty if it does not exist."""
    return delta_tables.create_table(tables, tables.realtime(release, source), SCHEMA, SETTINGS)


def spans_of(tables: Tables, release: int, source: str) -> list[Span]:
    """The spans of the table's commits, unordered; none if there is no table. Raises Unreadable."""
    handle = delta_tables.open_table(tables, tables.realtime(release, source))
    return [] if handle is None else list(read_spans(handle, {}).values())


def paths_by_span(tables: Tables, release: int, source: str) -> dict[Span, str]:
    """The file of each of the table's commits, by span; none if there is no table. Raises Unreadable."""
    handle = delta_tables.open_table(tables, tables.realtime(release, source))
    return {} if handle is None else {span: path for path, span in read_spans(handle, {}).items()}


def newest_at(tables: Tables, release: int, source: str) -> datetime | None:
    """The time of the table's newest commit; None without commits. Raises Unreadable."""
    handle = delta_tables.open_table(tables, tables.realtime(release, source))
    rows = (
        (delta_tables.read_file(handle, path, ["at"])["at"].to_pylist() for path in delta_tables.files(handle)) if handle else ()
    )
    return max((time for one in rows for time in one if time is not None), default=None)


def read_spans(handle: DeltaTable, known: Mapping[str, Span]) -> dict[str, Span]:
    """The span of every active file by path; files in `known` are not read again."""
    return {path: known[path] if path in known else _span(handle, path) for path in delta_tables.files(handle)}


def read_commit(handle: DeltaTable, path: str) -> Commit:
    """The commit that one active file holds. Raises Unreadable."""
    rows = delta_tables.read_file(handle, path).to_pylist()
    if not rows:
        unreadable(f"{handle.table_uri}: file {path}", ValueError("it has no rows"))
    return from_rows(rows)


def from_rows(rows: Sequence[Mapping[str, Any]]) -> Commit:
    """The commit of these rows; inverse of `row_values`."""
    first = rows[0]
    views = [row for row in rows if row["fingerprint"] is not None]
    return Commit(
        **_span_values(first),
        counts=Counts.from_json(json.loads(first["counts"])),
        rejected={row["fingerprint"]: json.loads(row["rejected"]) for row in views if row["rejected"] != "{}"},
        maxima=maxima_from_json(json.loads(first["maxima"])),
        newest=first["newest"],
        watermark=first["watermark"],
        after_final={row["fingerprint"]: row["after_final"] for row in views if row["after_final"]},
        partials={row["fingerprint"]: row["partial"] for row in views},
        at=first["at"],
        by=first["by"],
        caught_up=first["caught_up"],
        identities_since=first["identities_since"],
        last_records=last_records.from_json(json.loads(first.get("last_records") or "[]")),
    )


def row_values(commit: Commit) -> list[dict[str, Any]]:
    """The values of the commit's rows by column of SCHEMA."""
    shared = {
        "epoch": commit.epoch,
        "kind": commit.kind,
        "start_position": _text(commit.start.to_json()),
        "end_position": _text(commit.end.to_json()),
        "batches": commit.batches,
        "looked_up": _text(
            {
                source: [ends.least.to_json(), ends.most.to_json(), ends.publication]
                for source, ends in sorted(commit.looked_up.items())
            }
        ),
        "counts": _text(commit.counts.to_json()),
        "maxima": _text(maxima_to_json(commit.maxima)),
        "newest": commit.newest,
        "watermark": commit.watermark,
        "at": commit.at,
        "by": commit.by,
        "caught_up": commit.caught_up,
        "identities_since": commit.identities_since,
        "last_records": _text(last_records.to_json(commit.last_records)),
    }
    fingerprints: list[str | None] = [*sorted(commit.partials)] or [None]
    return [
        {
            "fingerprint": name,
            **shared,
            "rejected": _text(dict(commit.rejected.get(name or "", {}))),
            "after_final": commit.after_final.get(name or "", 0),
            "partial": commit.partials.get(name or ""),
        }
        for name in fingerprints
    ]


def to_rows(commit: Commit, handle: DeltaTable | None = None) -> pa.Table:
    """The rows of the commit's file; for a table that an earlier version has created, without columns that it lacks."""
    columns = SCHEMA.names if handle is None else delta_tables.column_names(handle)
    return pa.Table.from_pylist(row_values(commit), pa.schema([field for field in SCHEMA if field.name in columns]))


def _span(handle: DeltaTable, path: str) -> Span:
    rows = delta_tables.read_file(handle, path, _SPAN_COLUMNS).slice(0, 1).to_pylist()
    if not rows:
        unreadable(f"{handle.table_uri}: file {path}", ValueError("it has no rows"))
    return Span(**_span_values(rows[0]))


def _span_values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "start": Position.from_json(json.loads(row["start_position"])),
        "end": Position.from_json(json.loads(row["end_position"])),
        "epoch": row["epoch"],
        "kind": row["kind"],
        "batches": row["batches"],
        "looked_up": {
            source: TableEnds(Position.from_json(ends[0]), Position.from_json(ends[1]), *ends[2:])
            for source, ends in json.loads(row.get("looked_up") or "{}").items()
        },
    }


def _text(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))
