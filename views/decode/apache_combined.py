r"""The Apache combined log format: one value is one line of nine fields.

    host ident user [time] "request" status bytes "referer" "agent"

The event type takes what it needs by name:

| field      | type     | value                                                                    |
| ---------- | -------- | ------------------------------------------------------------------------ |
| `host`     | str      | the client's name or address                                             |
| `ident`    | str      | its RFC 1413 identity                                                    |
| `user`     | str      | the authenticated user                                                   |
| `time`     | datetime | when the request came, `17/May/2015:10:05:03 +0000`                      |
| `request`  | str      | the request's first line, whole                                          |
| `method`   | str      | its first word                                                           |
| `path`     | str      | the request target as logged, query included                             |
| `protocol` | str      | its last word, `HTTP/1.1`                                                |
| `status`   | int      | the final status                                                         |
| `bytes`    | int      | the size of the answer's body; `-` counts as 0                           |
| `referer`  | str      | the page that linked here                                                |
| `agent`    | str      | the client's software                                                    |

Text stays as logged, escapes (`\"`, `\\`, `\xhh`) included. A field declared Optional is null where the log has `-`. A
request line that is not METHOD TARGET PROTOCOL (a probe that is no HTTP, a connection that timed out) has no method, path or
protocol: null in an Optional field; an event type that needs one refuses the line. A line that lacks one of the nine
fields or a closing quote is refused. Spaces in `user` are refused too: which field they would belong to is a guess.
"""

import re
from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from views.decode.reasons import Parse, Reject
from views.errors import DefinitionError, listed
from views.event import TIMESTAMP, Event, event_fields

_QUOTED = r'"([^"\\]*(?:\\.[^"\\]*)*)"'
_PARTS = {
    "host": r"(\S+)",
    "ident": r"(\S+)",
    "user": r"(\S+)",
    "time": r"\[(\d{2}/[A-Z][a-z]{2}/\d{4}:\d{2}:\d{2}:\d{2} [+-]\d{4})\]",
    "request": _QUOTED,
    "status": r"(\d{3})",
    "bytes": r"(\d+|-)",
    "referer": _QUOTED,
    "agent": _QUOTED,
}
_LINE = re.compile(" ".join(_PARTS.values()) + r"\r?\n?", re.ASCII)
_REQUEST = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+) (\S+|\S.*(?= HTTP/))(?: (HTTP/\d+(?:\.\d+)?))?", re.ASCII)
_MONTHS = dict(zip("Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(), range(1, 13), strict=True))
_INT_DIGITS = 19

_REQUEST_PARTS = ("method", "path", "protocol")
_COLUMNS: dict[str, pa.DataType] = {
    **dict.fromkeys((*_PARTS, *_REQUEST_PARTS), pa.string()),
    "time": TIMESTAMP,
    "status": pa.int64(),
    "bytes": pa.int64(),
}


def parser(event: type[Event]) -> Parse:
    """A function from one line to one event; raises DefinitionError if the event type asks for what no line has."""
    fields = event_fields(event)
    for field in fields:
        place = f"{event.__name__}.{field.name}"
        if field.name in _COLUMNS and field.arrow != _COLUMNS[field.name]:
            raise DefinitionError(f"{place}: the combined log format gives this field as {_COLUMNS[field.name]}")
        if field.name not in _COLUMNS and field.required:
            valid = listed(field.name, _COLUMNS)
            raise DefinitionError(f"{place}: the combined log format has no such field; fields: {valid}")
    wanted = [field for field in fields if field.name in _COLUMNS]
    splits = any(field.name in _REQUEST_PARTS for field in wanted)

    def parse(value: bytes) -> Any:
        try:
            line = value.decode()
        except UnicodeDecodeError as error:
            raise Reject("utf8", f"byte {error.start} is not UTF-8: {error.reason}") from error
        match = _LINE.fullmatch(line)
        if match is None:
            raise Reject("format", _first_missing(line))
        found: dict[str, Any] = dict(zip(_PARTS, match.groups(), strict=True))
        if splits:
            request = _REQUEST.fullmatch(found["request"])
            found.update(zip(_REQUEST_PARTS, request.groups() if request else (None, None, None), strict=True))
        given = {}
        for field in wanted:
            logged = found[field.name]
            if logged is None and not field.optional:
                raise Reject("request", f"request {found['request']!r} has no {field.name}")
            given[field.key] = None if field.optional and logged in ("-", None) else _typed(field.name, logged)
        try:
            return msgspec.convert(given, event)
        except msgspec.ValidationError as error:
            raise Reject("refused" if error.__cause__ else "invalid_value", str(error)) from error

    return parse


def _typed(name: str, logged: str) -> Any:
    if name == "time":
        return _time(logged)
    if name in ("status", "bytes"):
        if len(logged) > _INT_DIGITS:
            raise Reject("out_of_range", f"{name} has {len(logged)} digits")
        return 0 if logged == "-" else int(logged)
    return logged


@lru_cache(maxsize=1024)  # neighbouring lines share their second
def _time(logged: str) -> datetime:
    """Read `17/May/2015:10:05:03 +0000`."""
    try:
        minutes = int(logged[22:24]) * 60 + int(logged[24:26])
        zone = timezone(timedelta(minutes=-minutes if logged[21] == "-" else minutes))
        return datetime(
            int(logged[7:11]),
            _MONTHS[logged[3:6]],
            int(logged[0:2]),
            int(logged[12:14]),
            int(logged[15:17]),
            int(logged[18:20]),
            tzinfo=zone,
        )
    except (KeyError, ValueError) as error:
        raise Reject("invalid_value", f"time {logged!r} does not exist") from error


def _first_missing(line: str) -> str:
    """Say which of the nine fields is the first that is not as the format has it."""
    pattern = ""
    for name, part in _PARTS.items():
        pattern += part
        # What follows a field is a space, or the end after the last.
        if not re.match(pattern + (r"\r?\n?\Z" if name == "agent" else " "), line, re.ASCII):
            return f"field {name} is missing, incomplete or not followed by what the combined log format has next"
        pattern += " "
    return "not the nine fields of the combined log format"
