"""nginx access logs in JSON: a `log_format ... escape=json` whose keys are the names of the variables.

    log_format events escape=json '{"time_iso8601": "$time_iso8601", "status": $status, "request": "$request", ...}';

The event type takes what it needs by name: `remote_addr`, `request`, `status`, `body_bytes_sent`, `request_time`, `http_referer`,
or any other variable. A value is a JSON string or a number.

| field                                       | value                                                          |
| ------------------------------------------- | -------------------------------------------------------------- |
| `time_iso8601`, as datetime                 | 2015-05-17T10:05:03+00:00                                      |
| `time_local`, as datetime                   | 17/May/2015:10:05:03 +0000                                     |
| `msec`, as datetime                         | seconds since 1970 with a fraction, exact to the microsecond   |
| bool, int, float, Decimal, Enum, Literal    | a number, or a string that holds the value as fields.text_values has it   |
| str                                         | a string, never a number                                       |
| list of these                               | its values, between `, ` and ` : `: of each server that nginx asked |

`status` may be 000, also without quotes: nginx has not answered.

A variable without a value is `""` under escape=json and `-` by nginx's default. Both are null in an Optional field, unchanged in
a str, and missing for any other field. All else is as strict as in the json decoder.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.event import Event, Field
from tandem.views.source.fields.named_fields import built
from tandem.views.source.fields.numbers import integer_of
from tandem.views.source.fields.reasons import Reject, misfit
from tandem.views.source.fields.text_values import list_reader, reader, text_fields
from tandem.views.source.fields.time_reader import is_time, time_reader
from tandem.views.source.fields.times import json_number
from tandem.views.source.format import Parse
from tandem.views.source.formats.access_logs.log_slots import LIST_SEPARATOR
from tandem.views.source.formats.access_logs.nginx_values import EMPTY, NO_STATUS, TIMES
from tandem.views.source.formats.json import strict
from tandem.views.source.formats.lines import EventOfLine

_BARE_NO_STATUS = re.compile(rb'(?<!\\)("status"\s*:\s*)000(?=\s*[,}])')
"""A number without quotes that JSON does not have."""

Logged = str | int | float | msgspec.UnsetType
# Numbers are read once the type of their field is known: a decimal keeps all its digits.
Unread = msgspec.Raw | msgspec.UnsetType


@dataclass(frozen=True)
class NginxJson(EventOfLine):
    """The decoder of nginx access logs in JSON."""

    def parser(self, event: type[Event]) -> Parse:
        """A function from one value to one event; raises DefinitionError if the event type has a field that nginx lacks."""
        fields = text_fields(event, "an nginx access log", lists=True)
        variables = [(field.key, _reader(field, f"{event.__name__}.{field.name}")) for field in fields]
        line = msgspec.defstruct(
            "Line",
            [(f"_{index}", Unread if _is_raw(field) else Logged, msgspec.UNSET) for index, field in enumerate(fields)],
            rename={f"_{index}": field.key for index, field in enumerate(fields)},
            forbid_unknown_fields=event.__struct_config__.forbid_unknown_fields,
        )
        keys = frozenset(field.key for field in fields)
        parse_line = strict(msgspec.json.Decoder(line).decode, keys, sum(field.required for field in fields))

        def parse(value: bytes) -> Any:
            try:
                logged = msgspec.structs.astuple(parse_line(value))
            except Reject as reject:
                if reject.reason != "json" or NO_STATUS.encode() not in value:
                    raise
                logged = msgspec.structs.astuple(parse_line(_BARE_NO_STATUS.sub(rb"\g<1>0", value)))
            pairs = zip(variables, logged, strict=True)
            return built(event, {key: read(one) for (key, read), one in pairs if one is not msgspec.UNSET})

        return parse

    def __str__(self) -> str:
        return call("nginx_json")


def nginx_json() -> NginxJson:
    """Decode nginx access logs in JSON (escape=json): one value is one object; with `max_events_per_record`, an object a line."""
    return NginxJson()


def _is_raw(field: Field) -> bool:
    return field.type is Decimal or field.items is not None or _has_notation(field)


def _has_notation(field: Field) -> bool:
    return field.notation is not None and is_time(field)


def _reader(field: Field, place: str) -> Callable[[str | float], Any]:
    read = None
    number_time = time_reader(field) if _has_notation(field) else None
    if number_time is None and field.type is datetime:
        if field.key not in TIMES:
            raise DefinitionError(f"{place}: nginx logs no time {field.key!r}; times: {', '.join(TIMES)}")
        read = TIMES[field.key]
    of_text = reader(field, read, empty=EMPTY) if field.items is None else list_reader(field, LIST_SEPARATOR.split, EMPTY)
    is_status = field.key == "status" and field.arrow == pa.int64()

    def value(logged: str | float | msgspec.Raw) -> Any:
        if isinstance(logged, str):
            return 0 if is_status and logged == NO_STATUS else of_text(logged)
        if isinstance(logged, msgspec.Raw):
            written = bytes(logged)
            if number_time is not None and (number := json_number(written)) is not None:
                return number_time(number)
            return of_text(_decimal(written, field.key))
        if read is not None:
            return read(str(logged))
        try:
            if isinstance(logged, float) and logged.is_integer() and field.arrow == pa.int64():
                return msgspec.convert(integer_of(logged), field.type)
            return msgspec.convert(logged, field.type)
        except msgspec.ValidationError as error:
            raise Reject(misfit(error).reason, f"field {field.key}: {error}") from error

    return value


def _decimal(written: bytes, key: str) -> str:
    """The digits of a number, or what a string holds."""
    try:
        return msgspec.json.decode(written, type=str) if written[:1] == b'"' else str(msgspec.json.decode(written, type=Decimal))
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise Reject("wrong_type", f"field {key}: {error}") from error
