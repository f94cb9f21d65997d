"""What changes of a table say of its rows: the columns with their types, the key, and what the source tells of a change."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final

import msgspec

from tandem.cli.project.infer.field_type import FieldType, members_of
from tandem.views.errors import TandemError
from tandem.views.source.formats.change_events.connect_schema import ConnectSchema

_OPERATIONS: Final = frozenset("crudtm")
_WITH_SCHEMA: Final = {"schema", "payload"}
_MOSTLY: Final = 0.5
_KEY_NAMES: Final = ("id", "key", "uuid")
_SCALE: Final = 9
_SCHEMA: Final = msgspec.json.Decoder(ConnectSchema)
_CONNECT: Final = "org.apache.kafka.connect.data."
_TIMES: Final = "io.debezium.time."
_NAMED: Final[Mapping[str, str]] = {
    _TIMES + "Date": "date",
    _TIMES + "IsoDate": "date",
    _CONNECT + "Date": "date",
    _TIMES + "ZonedTimestamp": "datetime",
    _TIMES + "ZonedTime": "str",
    **dict.fromkeys((_TIMES + "Time", _TIMES + "MicroTime", _TIMES + "NanoTime", _TIMES + "IsoTime", _CONNECT + "Time"), "time"),
    **dict.fromkeys(
        (
            _TIMES + "Timestamp",
            _TIMES + "MicroTimestamp",
            _TIMES + "NanoTimestamp",
            _TIMES + "IsoTimestamp",
            _CONNECT + "Timestamp",
        ),
        'Annotated[datetime, Zone("{zone}")]',
    ),
    **dict.fromkeys((_TIMES + "MicroDuration", _TIMES + "NanoDuration"), "timedelta"),
    "io.debezium.data.Uuid": "UUID",
}
_TYPED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), "int"),
    **dict.fromkeys(("float", "float32", "double", "float64"), "float"),
    "boolean": "bool",
    "string": "str",
    "bytes": "bytes",
}


@dataclass(frozen=True)
class ChangeSample:
    """The columns of a table by name, those of its key, and the members of `source` that all changes have.

    `guessed` says that no record has a key, so that the key is a guess. `decoder` is the call of the decoder.
    """

    columns: Mapping[str, FieldType]
    key: tuple[str, ...]
    source: frozenset[str]
    guessed: bool
    decoder: str = "debezium()"


def change_sample(values: Sequence[bytes], keys: Iterable[bytes | None], zone: str | None) -> ChangeSample | None:
    """What JSON values say, if most of them are changes; None for other values. Raises TandemError if none has a row."""
    objects = [each for value in values if isinstance(each := _object(value), dict)]
    envelopes = [each for each in map(_payload, objects) if _is_change(each)]
    if not envelopes or len(envelopes) <= _MOSTLY * len(values):
        return None
    rows = [row for each in envelopes for row in (each.get("after"), each.get("before")) if isinstance(row, dict)]
    if not rows:
        raise TandemError("no change has a row in after or before, from which columns could be guessed", code="file-unusable")
    schemas = [of for each in objects if (of := _schema(each)) is not None]
    columns = _of_schema(schemas[-1].member("after"), zone) if schemas else _of_rows(rows, zone)
    sources = [each["source"] for each in envelopes]
    common = frozenset(name for name in sources[-1] if all(each.get(name) is not None for each in sources))
    key = tuple(_payload(each) for key in keys if key is not None and isinstance(each := _object(key), dict))
    return with_key(ChangeSample(columns, (), common, guessed=True), tuple(key[-1]) if key else ())


def change_sample_of_schema(
    envelope: ConnectSchema, key: ConnectSchema | None, decoder: str, zone: str | None
) -> ChangeSample | None:
    """What a schema of changes says; None for the schema of something else."""
    members = {each.field for each in envelope.fields}
    if not {"op", "after", "source"} <= members:
        return None
    columns, source = _of_schema(envelope.member("after"), zone), envelope.member("source")
    sample = ChangeSample(columns, (), frozenset(each.field for each in source.fields) - {"lsn"}, guessed=True, decoder=decoder)
    return with_key(sample, () if key is None else tuple(each.field for each in key.fields))


def with_key(sample: ChangeSample, key: tuple[str, ...]) -> ChangeSample:
    """The sample with the columns of its key, or with a guess: the first column with the name of an id, or the first."""
    if key and all(name in sample.columns and sample.columns[name].annotation for name in key):
        return replace(sample, key=key, guessed=False)
    names = [name for name, of in sample.columns.items() if of.annotation]
    if not names:
        raise TandemError("no column of the table has a type that a field can have", code="file-unusable")
    likely = [name for name in names if name.lower() in _KEY_NAMES or name.lower().endswith("_id")]
    return replace(sample, key=((likely or names)[0],))


def _object(value: bytes) -> Any:
    try:
        return json.loads(value, parse_float=Decimal, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _payload(value: Mapping[str, Any]) -> Any:
    return value["payload"] if value.keys() == _WITH_SCHEMA else value


def _is_change(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.get("op") in _OPERATIONS
        and isinstance(value.get("source"), dict)
        and ("after" in value or "before" in value)
    )


def _schema(value: Mapping[str, Any]) -> ConnectSchema | None:
    """The schema of a value's envelope; None without one."""
    if value.keys() != _WITH_SCHEMA or value["schema"] is None:
        return None
    try:
        return _SCHEMA.decode(json.dumps(value["schema"], default=str))
    except msgspec.MsgspecError:
        return None


def _of_rows(rows: Sequence[Mapping[str, Any]], zone: str | None) -> dict[str, FieldType]:
    """The types by the values, but for objects."""
    return {
        name: replace(of, annotation="", note="its values are objects") if of.kind == "struct" else of
        for name, of in members_of(rows, zone).items()
    }


def _of_schema(row: ConnectSchema, zone: str | None) -> dict[str, FieldType]:
    return {each.field: _type(each, zone) for each in row.fields}


def _type(of: ConnectSchema, zone: str | None) -> FieldType:
    name, parameters = of.name or "", of.parameters or {}
    if name == _CONNECT + "Decimal":
        return FieldType("decimal", f"Annotated[Decimal, Scale({int(parameters.get('scale', '0'))})]")
    if name == "io.debezium.data.VariableScaleDecimal":
        note = f"a number without a scale: a value with more than {_SCALE} digits after the point is a reject"
        return FieldType("decimal", f"Annotated[Decimal, Scale({_SCALE})]", note)
    if of.type == "array" and of.items is not None and (item := _type(of.items, zone)).annotation:
        return FieldType("other", f"list[{item.annotation} | None]", item.note)
    annotation = _NAMED.get(name) or _TYPED.get(of.type, "")
    note = "" if annotation else f"its type is {name or of.type}"
    if "{zone}" in annotation:
        note = "" if zone else "a time without a zone, read in UTC"
    return FieldType("other", annotation.replace("{zone}", zone or "UTC"), note)
