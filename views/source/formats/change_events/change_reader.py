"""Reads Debezium's change events: one value is what happened to one row. In JSON, with or without its schema:

    {"before": null, "after": {"id": 7, "price": "12.50"}, "source": {"ts_us": 1767225600000000, ...}, "op": "u", ...}

The event type takes columns of the row by name:

| `op`                                | the row                                                                         |
| ----------------------------------- | ------------------------------------------------------------------------------- |
| c, u, r: created, updated, read by a snapshot | `after`                                                               |
| d: deleted                          | the columns of the record's key, all others null                                |
| d, with `before=True` or without a key | `before`                                                                     |
| t, m and others: truncated, a message | a reject                                                                      |
| a tombstone, with `tombstones="event"` | the columns of the record's key, all others null                             |

Fields whose keys start with two underscores are about the change, by the names of Debezium's ExtractNewRecordState:

| key                            | value                                                              |
| ------------------------------ | ------------------------------------------------------------------ |
| `__deleted`                    | whether the row is gone                                            |
| `__op`                         | the operation; `tombstone` of a tombstone                          |
| `__ts_ms`, `__ts_us`, `__ts_ns` | when Debezium read the change                                      |
| `__source_NAME`, or `__NAME`   | of the source: `__source_ts_us` is the commit; `__table`, `__lsn`, `__snapshot` |
| `__transaction_NAME`           | of the transaction                                                 |

A datetime reads the numbers of keys that end in `_ms`, `_us` and `_ns`, of a tombstone the record's timestamp.

With a schema it says how a column is written (connect_schema.py). Without one the annotations do, as in the json decoder; a date
is a number of days or a text with a `Z`, which a time of day may have, too. All else is as strict as in the json decoder.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import date, datetime, time
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import named_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.format import Listed
from tandem.views.source.formats.change_events.connect_schema import (
    ConnectSchema,
    Rewrite,
    day,
    has_form,
    instant,
    rewrite_value,
    rewrites,
    without_zone,
)
from tandem.views.source.formats.json import JSON, strict
from tandem.views.source.time_notation import EpochUnit

Members = Mapping[str, msgspec.Raw]
Columns = Mapping[str, Collection[str] | None]
"""By member of a record that is read, which of its own members are; None for all of them."""

_ENVELOPE: Final = frozenset({"schema", "payload", "op", "before", "after", "source"})
_WITH_SCHEMA: Final = {"schema", "payload"}
_START: Final = b'{"schema":'
_OBJECT: Final = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_SCHEMA: Final = msgspec.json.Decoder(ConnectSchema)
_TEXT: Final = msgspec.json.Decoder(str)
_TIME_KEY: Final = re.compile(r"__(?:.*_)?ts_(ms|us|ns)")
_UNITS: Final[Mapping[str, EpochUnit]] = {"ms": "ms", "us": "us", "ns": "ns"}
_OF_ENVELOPE: Final = frozenset({"op", "ts_ms", "ts_us", "ts_ns"})
_BLOCKS: Final = ("source", "transaction")
_PLACEHOLDER: Final = b"__debezium_unavailable_value"
_UNAVAILABLE: Final = frozenset(
    {
        b'"%s"' % _PLACEHOLDER,
        b'"%s"' % b64encode(_PLACEHOLDER),  # bytes
        b'["%s"]' % _PLACEHOLDER,  # an array of texts
        b"[%s]" % b",".join(b"%d" % byte for byte in _PLACEHOLDER),  # of integers or dates
        b'["b68a35a7-17ad-35b3-af2a-ae46edb4545a"]',  # of UUIDs: Java's of its bytes
    }
)
"""A large value that PostgreSQL did not log, because the update left it as it was. Of an array of floats it is null."""
_OF_TYPE: Final[Mapping[Any, Rewrite]] = {date: day, time: without_zone}
"""How columns of these types are written in every mode of Debezium, if no annotation says otherwise."""
_MOST_SCHEMAS: Final = 256
_OTHERS: Final = {
    "t": "a truncate, which deletes all rows and names none",
    "m": "a message, which is about no row",
}


class WrittenRow(NamedTuple):
    """The columns of a row or key as a JSON object, and how they are written."""

    columns: bytes
    changes: Mapping[str, Rewrite]


OfKey = Callable[[], WrittenRow]
"""The columns of a record's key. Raises Reject."""


class _MemberPlace(NamedTuple):
    """Where a field about the change is: a member of the envelope, or of a block in it."""

    block: str
    member: str


class ChangeReader:
    """How one event type reads changes."""

    def __init__(self, event: type[Event], *, before: bool) -> None:
        fields = named_fields(event, "a change event")
        self._before = before
        self._build = JSON.parser(event)
        self._closed = event.__struct_config__.forbid_unknown_fields
        self._row = tuple(field for field in fields if not field.key.startswith("__"))
        self._about = tuple(field for field in fields if field.key.startswith("__"))
        self._places = [(field.key, *_member_of(field.key), _time_reader(field)) for field in self._about]
        self._without_schema: Mapping[str, Rewrite] = {
            field.key: _OF_TYPE[field.type] for field in self._row if field.type in _OF_TYPE and not has_form(field)
        }
        self._columns = strict(_OBJECT, frozenset(field.key for field in self._row), 0)
        members: dict[str, set[str]] = {"": {*_ENVELOPE}}
        for _, block, member, _ in self._places:
            members.setdefault(block, set()).add(member)
            members[""] |= {block} - {""}
        self._blocks = {block: strict(_OBJECT, frozenset(names), 0) for block, names in members.items()}
        self._envelope = self._blocks[""]
        self._schemas: dict[tuple[bytes, bool], Mapping[str, Rewrite]] = {}
        self._prefix = b""
        self._of_prefix: Mapping[str, Rewrite] = {}

    @property
    def columns(self) -> Columns:
        """The members of an envelope that are read, and of each the members."""
        row = None if self._closed else frozenset(field.key for field in self._row)
        return {"before": row, "after": row, "op": None, **{name: names or None for name, names in self._members_by_block()}}

    @property
    def key_columns(self) -> Columns | None:
        """The columns of a key that are read; None for all of them."""
        return None if self._closed else {field.key: None for field in self._row}

    def parse(self, value: bytes | None, key: bytes | None, timestamp: datetime | None) -> Any:
        """The event of one change in JSON. Raises Reject."""
        of_key = None if key is None else partial(self.json_key, key)
        if value is None:
            return self.tombstone(of_key, timestamp)
        return self.change(*self._unwrap(value), of_key)

    def tombstone(self, of_key: OfKey | None, timestamp: datetime | None) -> Any:
        """The event of a tombstone. Raises Reject."""
        return self._build_event(self._key_columns(of_key), self._times(timestamp), op="tombstone", deleted=True)

    def change(self, envelope: Members, changes: Mapping[str, Rewrite], of_key: OfKey | None) -> Any:
        """The event of one change, by how its rows are written, and what reads its record's key. Raises Reject."""
        if "op" not in envelope:
            raise Reject("format", "the value has no op: a topic of a table has changes of its rows alone")
        op = _text(envelope["op"])
        if op not in ("c", "u", "r", "d"):
            raise Reject("format", f"op {op!r} is {_OTHERS.get(op, 'unknown: a change of a row has the op c, u, r or d')}")
        meta = self._meta(envelope)
        if op != "d":
            return self._build_event(self._of_row(envelope, "after", changes), meta, op=op, deleted=False)
        if self._before or of_key is None:
            return self._build_event(self._of_row(envelope, "before", changes), meta, op=op, deleted=True)
        return self._build_event(self._key_columns(of_key), meta, op=op, deleted=True)

    def json_key(self, key: bytes) -> WrittenRow:
        """The columns of a record's key in JSON. Raises Reject."""
        members = self._columns(_as_object(msgspec.Raw(key), "key"))
        if members.keys() != _WITH_SCHEMA:
            return WrittenRow(key, self._without_schema)
        return WrittenRow(_as_object(members["payload"], "key"), self._of_schema(bytes(members["schema"]), key=True))

    def rewrites(self, schema: ConnectSchema) -> Mapping[str, Rewrite]:
        """How columns are written that are in Avro with this schema in Connect's words."""
        return {**self._without_schema, **rewrites(self._row, schema)}

    def _members_by_block(self) -> Iterator[tuple[str, frozenset[str]]]:
        """Of the fields about the change: the members of the envelope, with those of a block."""
        blocks: dict[str, set[str]] = {}
        for _, block, member, _ in self._places:
            blocks.setdefault(block or member, set()).update({member} if block else ())
        return ((name, frozenset(members)) for name, members in blocks.items())

    def _unwrap(self, value: bytes) -> tuple[Members, Mapping[str, Rewrite]]:
        """The envelope, and how its rows are written."""
        if self._prefix and value.startswith(self._prefix):
            try:
                return self._envelope(value[len(self._prefix) : -1]), self._of_prefix
            except Reject:
                pass  # the error of the whole value names the fault
        envelope = self._envelope(value)
        if envelope.keys() != _WITH_SCHEMA:
            return envelope, self._without_schema
        schema = bytes(envelope["schema"])
        changes = self._of_schema(schema)
        payload = self._envelope(_as_object(envelope["payload"], "payload"))
        if value.startswith(prefix := _START + schema + b',"payload":'):
            self._prefix, self._of_prefix = prefix, changes
        return payload, changes

    def _of_schema(self, schema: bytes, *, key: bool = False) -> Mapping[str, Rewrite]:
        """How the columns of a row, or of a key, of this schema are written."""
        if (schema, key) not in self._schemas:
            if schema == b"null":
                return self._without_schema
            try:
                parsed = _SCHEMA.decode(schema)
                changes = rewrites(self._row, parsed if key else parsed.member("after"))
            except (msgspec.MsgspecError, ValueError) as error:
                raise Reject("format", f"the schema is not one of Kafka Connect: {error}") from error
            if len(self._schemas) >= _MOST_SCHEMAS:
                self._schemas.clear()
            self._schemas[schema, key] = changes
        return self._schemas[schema, key]

    def _of_row(self, envelope: Members, name: str, changes: Mapping[str, Rewrite]) -> dict[str, Any]:
        if name not in envelope or bytes(envelope[name]) == b"null":
            raise Reject("missing_field", f"the change has no row in {name}")
        return self._values(_as_object(envelope[name], name), changes)

    def _key_columns(self, of_key: OfKey | None) -> dict[str, Any]:
        """The columns of a record's key; all other columns are null where they may be."""
        if of_key is None:
            raise Reject("missing_field", "the tombstone has no key")
        values = self._values(*of_key())
        return {**{field.key: None for field in self._row if field.optional}, **values}

    def _values(self, row: bytes, changes: Mapping[str, Rewrite]) -> dict[str, Any]:
        columns = self._columns(row)
        values: dict[str, Any] = dict(columns) if self._closed else {}
        for field in self._row:
            if (value := columns.get(field.key)) is None:
                continue
            raw = bytes(value)
            if raw in _UNAVAILABLE:
                raise Reject(
                    "missing_field",
                    f"column {field.key} is large and was not changed, so PostgreSQL did not log it; "
                    "ALTER TABLE ... REPLICA IDENTITY FULL logs it",
                )
            rewrite = changes.get(field.key)
            values[field.key] = value if rewrite is None else rewrite_value(field.key, rewrite, raw)
        return values

    def _meta(self, envelope: Members) -> dict[str, Any]:
        """The values of fields about the change, but for the operation."""
        blocks: dict[str, Members] = {"": envelope}
        values: dict[str, Any] = {}
        for key, block, member, read in self._places:
            if block not in blocks:
                raw = envelope.get(block)
                blocks[block] = {} if raw is None or bytes(raw) == b"null" else self._blocks[block](_as_object(raw, block))
            value = blocks[block].get(member)
            if value is not None:
                values[key] = value if read is None else rewrite_value(key, read, bytes(value))
        return values

    def _times(self, timestamp: datetime | None) -> dict[str, Any]:
        """The times of a tombstone: its record's."""
        return {field.key: timestamp for field in self._about if field.type is datetime}

    def _build_event(self, row: dict[str, Any], meta: dict[str, Any], *, op: str, deleted: bool) -> Any:
        about = {"__op": op, "__deleted": deleted}
        taken = {field.key: about[field.key] for field in self._about if field.key in about}
        try:
            return self._build(msgspec.json.encode({**row, **meta, **taken}))
        except Reject as reject:
            if deleted and reject.reason == "missing_field" and not self._before:
                raise Reject(
                    reject.reason,
                    f"{reject.detail}: a deleted row has its key's columns; declare others Optional, or debezium(before=True)",
                ) from reject
            raise


def _member_of(key: str) -> _MemberPlace:
    name = key.removeprefix("__")
    for block in _BLOCKS:
        if name.startswith(f"{block}_"):
            return _MemberPlace(block, name.removeprefix(f"{block}_"))
    return _MemberPlace("" if name in _OF_ENVELOPE else "source", name)


def _time_reader(field: Field) -> Callable[[bytes], bytes] | None:
    """How a field about the change reads a number as a time; None if it does not."""
    match = _TIME_KEY.fullmatch(field.key)
    return partial(instant, unit=_UNITS[match[1]]) if match and field.type is datetime and not has_form(field) else None


def _as_object(value: msgspec.Raw, name: str) -> bytes:
    raw = bytes(value)
    if not raw.lstrip().startswith(b"{"):
        raise Reject("wrong_type", f"the change's {name} is not an object")
    return raw


def _text(value: msgspec.Raw) -> str:
    try:
        return _TEXT.decode(bytes(value))
    except msgspec.MsgspecError as error:
        raise Reject("wrong_type", f"op: {error}") from error


def refuse_lists(event: type[Event]) -> Listed:
    """Raises DefinitionError: a value is one change."""
    raise DefinitionError(f"{event.__name__}: debezium() reads one change of a value; remove max_events_per_record")
