"""A delete of a row in the form that the table's source has: made of the newest record of the row's key.

* Of `debezium()`, in JSON or Avro: the change `d`, with the last `after` as `before`, and the `source` of the snapshot's rows, so
  that its time is when the snapshot began.
* Of JSON objects: the object with another event time, and with the fields by which the table's `gone` holds.
"""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from tandem.cli.log.table.table_log import NotRebuilt, Row, TableLog
from tandem.views.composite.table import Table
from tandem.views.decode.sample_records import as_records
from tandem.views.instant import APPEND_TIME, microseconds, utc_text
from tandem.views.kernel.kernel import decode
from tandem.views.measures.filtered import bare
from tandem.views.measures.first_last import NewestVersion
from tandem.views.source.event import event_fields
from tandem.views.source.fields.event_time import time_path
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.formats.change_events.debezium import Debezium
from tandem.views.source.formats.change_events.debezium_avro import DebeziumAvro, DebeziumFromRegistry
from tandem.views.source.formats.json import JSON
from tandem.views.source.formats.schema_registry import frame_of
from tandem.views.source.prepare import prepared_schema
from tandem.views.source.source import Source
from tandem.views.sql.expressions import bind_expression

DeleteForm = Callable[[Row], bytes]
"""Makes the value of a delete of the newest record of a key. Raises NotRebuilt."""

_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_NULL: Final = msgspec.Raw(b"null")
_TIMES: Final = ("ts_ms", "ts_us", "ts_ns")
_PER_SECOND: Final = (1, 10**3, 10**6, 10**9)
_ROW_OPS: Final = ("c", "u", "r")


def reads_changes(source: Source) -> bool:
    """Whether the source reads Debezium's changes."""
    return isinstance(source.decoder, Debezium | DebeziumAvro | DebeziumFromRegistry)


def refuse_without_form(table: Table) -> None:
    """Raise NotRebuilt if no record can take out a row of the table, or none in a form that is written here."""
    source = table.lookup_source
    if gone_of(table) is None:
        raise NotRebuilt(f"table '{table.name}' has no `gone`, so no record takes a row out of it")
    if source.unnest is not None or source.max_events_per_record is not None:
        raise NotRebuilt(f"a record of source '{source.name}' has several events; `table rebuild` takes one of each record")
    if not reads_changes(source) and source.decoder != JSON:
        raise NotRebuilt(
            f"source '{source.name}' reads neither debezium() nor json(), and no other form of a delete is written here; "
            "--out lists the keys, so that you can send deletes yourself"
        )


def gone_of(table: Table) -> str | None:
    """The condition by which a key is gone."""
    newest = bare(next(iter(table.parent.measures.values())))
    assert isinstance(newest, NewestVersion)  # a table has no other measures
    return newest.gone


def change_form(log: TableLog, sample: Row) -> DeleteForm:
    """The form of Debezium's deletes, at the time of the snapshot that `sample` is a row of."""
    return (_json_form if isinstance(log.source.decoder, Debezium) else _avro_form)(log, sample)


def object_form(log: TableLog, at: datetime, fields: Mapping[str, Any]) -> DeleteForm:
    """The form of deletes in JSON objects: at this time, with these fields, else with the field that `gone` is.

    Raises NotRebuilt if `gone` is not a field, and no fields are given.
    """
    changed = {name: _raw(value) for name, value in (fields or _gone_field(log.table)).items()}
    key = _time_key(log.source)
    notation: list[Any] = []

    def form(row: Row) -> bytes:
        try:
            members = {**_OBJECT(row["value"] or b""), **changed}
        except msgspec.MsgspecError as error:
            raise _not_a_row(row, "it is not a JSON object") from error
        if key is None:
            return msgspec.json.encode(members)
        if not notation:
            notation.append(_notation(log.source, members, key, row, at))
        return msgspec.json.encode({**members, key: notation[0]})

    return form


def _gone_field(table: Table) -> dict[str, bool]:
    source, gone = table.lookup_source, gone_of(table)
    assert gone is not None  # refused before
    bound = bind_expression(gone, prepared_schema(source), source.event.__name__)
    for field in event_fields(source.event):
        if field.name == bound.column and field.type is bool:
            return {field.key: True}
    raise NotRebuilt(
        f"table '{table.name}': gone={gone!r} is not a field of type bool, so name the fields of a delete with --set, such as "
        "--set state='\"deleted\"'"
    )


def _time_key(source: Source) -> str | None:
    """The key of the event time in JSON; None if it is when the log received the record. Raises NotRebuilt."""
    if source.event_time == APPEND_TIME:
        return None
    path = time_path(source.event, source.event_time)
    if len(path) != 1:
        raise NotRebuilt(
            f"source '{source.name}': its event time {source.event_time} is inside a struct, which is not written here; send the "
            "deletes yourself: --out lists the keys"
        )
    return path[0].key


def _notation(source: Source, members: Mapping[str, Any], key: str, row: Row, at: datetime) -> msgspec.Raw:
    """The event time as the source reads it. Raises NotRebuilt."""
    for value in _notations(at):
        if _time_of(source, row, msgspec.json.encode({**members, key: _raw(value)})) == at:
            return _raw(value)
    raise NotRebuilt(
        f"source '{source.name}': a delete at {utc_text(at)} does not decode, or its event time {source.event_time} is in a "
        "notation that is not written here; send the deletes yourself: --out lists the keys"
    )


def _notations(at: datetime) -> Iterator[Any]:
    yield at.isoformat().replace("+00:00", "Z")
    us = microseconds(at)
    for per in _PER_SECOND:
        yield us * per // 10**6


def _time_of(source: Source, row: Row, value: bytes) -> datetime | None:
    """The event time of a value in place of a record's; None if it does not decode."""
    headers = {header["key"]: header["value"] for header in row["headers"] or ()}
    events = decode(
        source, as_records(source, [value], topic_id="", offsets=[0], at=row["timestamp"], keys=[row["key"]], headers=[headers])
    ).events
    return None if not events.num_rows else events[source.time_column][0].as_py()


def _json_form(log: TableLog, sample: Row) -> DeleteForm:  # noqa: ARG001  as _avro_form
    of_snapshot, _ = _envelope(sample["value"])
    source = msgspec.Raw(msgspec.json.encode({**_OBJECT(of_snapshot["source"]), "snapshot": "false"}))

    def form(row: Row) -> bytes:
        try:
            envelope, schema = _envelope(row["value"] or b"")
            op = msgspec.json.decode(envelope["op"])
        except (msgspec.MsgspecError, KeyError) as error:
            raise _not_a_row(row, "it is not a change in JSON") from error
        _refuse_other_op(row, op)
        times = {name: of_snapshot[name] for name in _TIMES if name in envelope and name in of_snapshot}
        others = {"transaction": _NULL} if "transaction" in envelope else {}
        change = {**envelope, **times, **others, "before": envelope["after"], "after": _NULL, "op": _raw("d"), "source": source}
        return msgspec.json.encode(change if schema is None else {"schema": schema, "payload": change})

    return form


def _envelope(value: bytes) -> tuple[dict[str, msgspec.Raw], msgspec.Raw | None]:
    """The members of a change in JSON, and its schema if it has one."""
    whole = _OBJECT(value)
    return (_OBJECT(whole["payload"]), whole["schema"]) if whole.keys() == {"schema", "payload"} else (whole, None)


def _avro_form(log: TableLog, sample: Row) -> DeleteForm:
    from fastavro import parse_schema, schemaless_reader, schemaless_writer  # noqa: PLC0415  few sources are in Avro

    decoder, parsed = log.source.decoder, dict[str, Any]()

    def parts(row: Row) -> tuple[Any, dict[str, Any], bytes]:
        value, headers = row["value"] or b"", row["headers"]
        frame = frame_of(value, headers, message=False)
        if frame.id not in parsed:
            parsed[frame.id] = parse_schema(_physical(json.loads(_schema_text(log, decoder, frame.id))))
        schema = parsed[frame.id]
        return schema, schemaless_reader(io.BytesIO(value[frame.start :]), schema, None), value[: frame.start]  # type: ignore[return-value]

    _, of_snapshot, _ = parts(sample)

    def form(row: Row) -> bytes:
        schema, envelope, frame = parts(row)
        _refuse_other_op(row, envelope["op"])
        envelope |= {name: of_snapshot[name] for name in envelope if name in _TIMES and name in of_snapshot}
        envelope |= dict.fromkeys(["transaction"] if "transaction" in envelope else [])
        source = {**of_snapshot["source"], "snapshot": "false"}
        change = {**envelope, "before": envelope["after"], "after": None, "op": "d", "source": source}
        out = io.BytesIO()
        schemaless_writer(out, schema, change)
        return frame + out.getvalue()

    def refusing(row: Row) -> bytes:
        try:
            return form(row)
        except (Reject, ValueError, TypeError, KeyError, OverflowError) as error:
            raise _not_a_row(row, f"no delete can be written with its schema: {type(error).__name__}: {error}") from error

    return refusing


def _schema_text(log: TableLog, decoder: Any, number: str) -> str:
    """The schema of this id, as the decoder has it."""
    if isinstance(decoder, DebeziumAvro):
        return dict(decoder.schemas)[int(number)]
    ready = log.schemas.bind(log.source).decoder
    assert isinstance(ready, DebeziumFromRegistry)
    return ready.text(dict(ready.schemas), number)


def _physical(schema: Any) -> Any:
    """The schema without logical types: values are read and written as they are stored."""
    if isinstance(schema, dict):
        return {name: _physical(part) for name, part in schema.items() if name != "logicalType"}
    return [_physical(part) for part in schema] if isinstance(schema, list) else schema


def _refuse_other_op(row: Row, op: str) -> None:
    if op not in _ROW_OPS:
        raise _not_a_row(row, f"its operation is {op!r}")


def _not_a_row(row: Row, why: str) -> NotRebuilt:
    place = f"{row['topic_id']}/{row['partition']}:{row['offset']}"
    return NotRebuilt(f"the newest record of a key, at {place}, does not become a delete: {why}")


def _raw(value: Any) -> msgspec.Raw:
    return value if isinstance(value, msgspec.Raw) else msgspec.Raw(msgspec.json.encode(value))


def fields_of_texts(texts: list[str]) -> dict[str, Any]:
    """The values of --set by the key in JSON. Raises NotRebuilt."""
    fields = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            fields[name] = msgspec.Raw(msgspec.json.encode(json.loads(value)))
        except ValueError as error:
            raise NotRebuilt(f"invalid --set {text!r}; expected FIELD=JSON, such as deleted=true") from error
    return fields
