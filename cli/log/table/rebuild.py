"""`tandem table`: take rows out of a table that a new snapshot of its database did not bring again."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.cli.command.uncounted import WITHIN_S, Wait, Within, counted_output, wait_until_counted
from tandem.cli.log.replay import position_of
from tandem.cli.log.table.absent_rows import AbsentRows, absent_rows, append, appender_of, deletes
from tandem.cli.log.table.delete_forms import change_form, fields_of_texts, object_form, reads_changes, refuse_without_form
from tandem.cli.log.table.snapshots import TableSnapshot, newest_snapshot, snapshot_from
from tandem.cli.log.table.table_log import NotRebuilt, TableLog, open_log
from tandem.infra import kafka
from tandem.infra.files import atomic_files
from tandem.infra.kafka import broker
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.selection import parse_time
from tandem.views.composite.table import Table
from tandem.views.counted import counted
from tandem.views.errors import TandemError, listed
from tandem.views.instant import microseconds, utc_text
from tandem.views.source.offset_ranges import Offsets

_LISTED: Final = 20


def run(
    call: Call,
    what: Annotated[Literal["rebuild"], typer.Argument(metavar="rebuild", help="What to do.")],
    name: Annotated[str, typer.Argument(help="The table.")],
    *,
    from_: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="TIME|POSITION",
            help="Where the new snapshot begins: the time of its first record (ISO 8601, UTC), or TOPIC-ID/PARTITION:OFFSET, "
            "which may be repeated. Default: the newest snapshot by Debezium's markers.",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="FIELD=JSON", help="Of JSON objects: a field by which a row is gone; may be repeated."),
    ] = None,
    list_: Annotated[int, typer.Option("--list", min=0, metavar="N", help="Print the keys of N rows.")] = _LISTED,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the keys of all rows, one JSON object a line.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Append the deletes. Without it nothing is appended.")] = False,
    wait: Wait = False,
    within: Within = WITHIN_S,
) -> Output:
    """Take rows out of table NAME that a new snapshot of its database did not bring again.

    After a lost replication slot a connector takes another snapshot. A row that was deleted meanwhile has no change, and stays in
    the table. This command compares the table with the records from the beginning of the snapshot on. Rows about whose keys
    none of these records is would be taken out. Without `--yes` it prints them.

    `--yes` appends a delete of each to the topic, in the form of the source: a change `d` of Debezium, in JSON or Avro, at the
    time of the snapshot; of JSON objects the newest record of the key, at the time of --from, with the field of the table's
    `gone`, or with --set. Both layers count the deletes as any records.

    * The command refuses while the snapshot is not complete: until the log has the row that Debezium marks as the last one. With
      --from nothing says so; then you do.
    * It first waits until answers count the log up to its present end, for at most --within seconds.
    * If another producer appends a record about a key meanwhile, the row stays. The check and the append are one transaction.
    * After an interruption, run it again: rows that have their deletes are left out.
    """
    del what  # there is one thing to do yet
    settings = call.settings()
    tables = Tables.of(settings)
    table = _table(call, tables, name)
    refuse_without_form(table)
    fields = fields_of_texts(list(set_ or ()))
    if fields and reads_changes(table.lookup_source):
        raise NotRebuilt("--set is for JSON objects; a delete of Debezium has the columns of the row's key")
    log = open_log(settings, tables, table, kafka.connect(broker.address(settings)))
    # With --yes its producer comes first: then the log has all deletes that an earlier command committed.
    with appender_of(log) if yes else nullcontext() as appender:
        ends = log.ends()
        start = _start(log, list(from_ or ()), ends)
        rows, brought = _compare(log, start, ends, seconds=within)
        form = change_form(log, start.snapshot.sample) if start.snapshot is not None else object_form(log, start.at, fields)
        planned = deletes(log, rows, form)
        keys = rows.keys()
        if out is not None:
            _write(out, keys)
        appended = append(log, appender, planned, ends) if appender is not None else 0
    document = {
        "table": name,
        "topic": log.topic.name,
        "snapshot": start.document,
        "brought": brought,
        "absent": len(keys),
        "keys": keys[:list_],
        "appended": appended,
    }
    if not yes:
        return Output(document, "\n".join(_lines(name, start, rows, keys[:list_])))
    document["changed"] = changed = len(keys) - appended
    shown = f"{counted(appended, 'delete')} appended to topic '{log.topic.name}'"
    if changed:
        shown += f"; {counted(changed, 'row')} stayed, because newer changes came meanwhile"
    if not wait:
        return Output(document, shown)
    late = wait_until_counted(settings, {log.source.name: Position.of(log.ends(committed=False))}, seconds=within, of=appended)
    return counted_output(call, document, shown, late)


def _compare(log: TableLog, start: "_Start", ends: Offsets, *, seconds: float) -> tuple[AbsentRows, int]:
    """The rows that did not come again, and how many keys did. Raises NotRebuilt."""
    late = wait_until_counted(log.settings, {log.source.name: Position.of(ends)}, seconds=seconds)
    if late is not None:
        raise NotRebuilt(f"the table is compared once answers count the whole log: {late.sentence}")
    brought = log.nothing()
    for records in log.records(start.offsets, ends):
        brought.add(log.keys_in(records))
    if start.snapshot is None and not brought.keys.num_rows:
        raise NotRebuilt(
            f"topic '{log.topic.name}' has no row of table '{log.table.name}' from there on, so nothing says that it is a "
            "snapshot"
        )
    return absent_rows(log, Reader(log.tables), brought, ends), brought.keys.num_rows


@dataclass(frozen=True)
class _Start:
    """The position and the time at which a snapshot begins; `snapshot` if Debezium's rows mark it."""

    offsets: Offsets
    at: datetime
    snapshot: TableSnapshot | None
    marked: bool

    @property
    def document(self) -> dict[str, Any]:
        rows = None if self.snapshot is None else self.snapshot.rows
        return {"began": utc_text(self.at), "rows": rows, "marked": self.marked, "from": Position.of(self.offsets).to_json()}


def _start(log: TableLog, texts: Sequence[str], ends: Offsets) -> _Start:
    """Where the snapshot begins, by --from or by markers. Raises NotRebuilt."""
    changes = reads_changes(log.source)
    if not texts:
        if not changes:
            raise NotRebuilt(
                f"records of source '{log.source.name}' do not say where a snapshot begins; name it with --from, such as --from "
                "2026-11-01T08:00"
            )
        newest = newest_snapshot(log, ends)
        assert newest.sent is not None  # it has rows
        # A partition without a row of the snapshot has what came after its first row.
        offsets = {**_at_time(log, newest.sent, ends), **newest.firsts}
        return _Start(offsets, newest.began, newest, marked=True)
    named, at = _position(log, texts, ends)
    if not changes:
        return _Start(named, at, None, marked=False)
    snapshot = snapshot_from(log, named, ends)
    return _Start(named, snapshot.began, snapshot, marked=False)


def _position(log: TableLog, texts: Sequence[str], ends: Offsets) -> tuple[Offsets, datetime]:
    """The offsets and the time that --from gives."""
    if len(texts) == 1 and "/" not in texts[0]:
        at = parse_time(texts[0])
        return _at_time(log, at, ends), at
    position = position_of(tuple(texts))
    if unknown := [place for place in position if place not in ends]:
        topic, partition = unknown[0]
        raise NotRebuilt(
            f"--from names partition {partition} of topic {topic}; topic '{log.topic.name}' has the id {log.topic.id} and "
            f"{counted(log.topic.partitions, 'partition')}"
        )
    offsets = {**ends, **position}
    stamps = [records["timestamp"].combine_chunks() for records in log.records(offsets, ends) if records.num_rows]
    if not stamps:
        raise NotRebuilt(f"topic '{log.topic.name}' has no record from there on")
    return offsets, min(stamp.to_pylist()[0] for stamp in stamps)


def _at_time(log: TableLog, at: datetime, ends: Offsets) -> Offsets:
    """The first offset of each partition with a record at or after a time, else its end."""
    return {**ends, **kafka.first_at(log.connection, [log.topic], -(-microseconds(at) // 1000))}


def _write(out: Path, keys: Sequence[Mapping[str, Any]]) -> None:
    """Write keys as lines of JSON. Raises TandemError."""
    lines = "".join(f"{json.dumps(key, ensure_ascii=False)}\n" for key in keys)
    try:
        atomic_files.replace(out, lines.encode())
    except OSError as error:
        raise TandemError(f"cannot write --out {out}: {error}", code="file-unusable") from error


def _table(call: Call, tables: Tables, name: str) -> Table:
    views = definitions(call, tables).every_view
    if name not in views:
        raise TandemError(f"no view {name!r}; views: {listed(name, views)}", code="view-unknown")
    view = views[name]
    if not isinstance(view, Table):
        names = [each for each, kind in views.items() if isinstance(kind, Table)]
        raise NotRebuilt(f"'{name}' is a view, and only a table has rows to take out; tables: {', '.join(names) or 'none'}")
    return view


def _lines(name: str, start: _Start, rows: AbsentRows, keys: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if start.snapshot is None:
        yield f"the snapshot of table {name} begins at {utc_text(start.at)}, as --from says; nothing says whether it is complete"
    else:
        whole = "is complete" if start.marked else "is as --from says; nothing says whether it is complete"
        yield f"the snapshot of {utc_text(start.at)} has {counted(start.snapshot.rows, 'row')} and {whole}"
    number = rows.states.num_rows
    yield f"{counted(number, 'row')} of table {name} did not come again{':' if keys else ''}"
    for key in keys:
        yield f"  {', '.join(f'{column}={value}' for column, value in key.items())}"
    if number > len(keys):
        yield f"  and {number - len(keys)} more; --out FILE has all of them" if keys else "  --out FILE has them"
    yield "nothing was appended; `--yes` appends a delete of each" if number else "nothing is to be taken out"
