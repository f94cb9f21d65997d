r"""The Apache combined log format: one value is one line of nine fields.

    host ident user [time] "request" status bytes "referer" "agent"

The event type takes what it needs by name:

| field      | type     | value                                                                    |
| ---------- | -------- | ------------------------------------------------------------------------ |
| `host`     | str      | the client's name or address                                             |
| `ident`    | str      | its RFC 1413 identity                                                    |
| `user`     | str      | the authenticated user                                                   |
| `time`     | datetime | when the request arrived, `17/May/2015:10:05:03 +0000`                   |
| `request`  | str      | the request's first line, whole                                          |
| `method`   | str      | its first word                                                           |
| `path`     | str      | the request target as logged, query included                             |
| `protocol` | str      | its last word, `HTTP/1.1`                                                |
| `status`   | int      | the final status                                                         |
| `bytes`    | int      | the size of the answer's body; `-` counts as 0                           |
| `referer`  | str      | the page that linked here                                                |
| `agent`    | str      | the client's software                                                    |

* Text stays as logged, escapes (`\"`, `\\`, `\xhh`) included.
* A field declared Optional is null where the log has `-`.
* A request line that is not METHOD TARGET PROTOCOL (a probe that is not HTTP, a connection that timed out) has no method, path or
  protocol: they are null in Optional fields; an event type that requires one rejects the line.
* A byte that is not UTF-8 rejects the line only in a field that the event type takes.
* A line that lacks one of the nine fields or a closing quote is rejected.
* A line with a space in `user` is rejected, because the space could also separate fields.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import TIMESTAMP, Event, Field, event_fields
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import check_text, with_damage
from tandem.views.source.format import Listed, Parse
from tandem.views.source.formats.clf_time import CLF_TIME, clf_time
from tandem.views.source.formats.lines import by_line

# Possessive quantifiers: no crafted line makes the search backtrack.
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'
_LINE_FIELDS = {
    "host": r"(\S++)",
    "ident": r"(\S++)",
    "user": r"(\S++)",
    "time": rf"\[({CLF_TIME})\]",
    "request": _QUOTED,
    "status": r"(\d{3})",
    "bytes": r"(\d++|-)",
    "referer": _QUOTED,
    "agent": _QUOTED,
}
_END = r"\r?\n?"
_LINE = re.compile(" ".join(_LINE_FIELDS.values()) + _END, re.ASCII)
_REQUEST = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]++) (\S++|\S.*(?= HTTP/))(?: (HTTP/\d+(?:\.\d+)?))?", re.ASCII)
_REQUEST_FIELDS = ("method", "path", "protocol")
_NO_REQUEST = (None, None, None)
_NAMES = (*_LINE_FIELDS, *_REQUEST_FIELDS)
_TYPES = dict.fromkeys(_NAMES, pa.string()) | {"time": TIMESTAMP, "status": pa.int64(), "bytes": pa.int64()}

_INT_DIGITS = 19

Read = Callable[[str], Any]


@dataclass(frozen=True)
class ApacheCombined:
    """The decoder of Apache's combined log format."""

    header: ClassVar[bool] = False

    def parser(self, event: type[Event]) -> Parse:
        """A function from one line to one event; raises DefinitionError if the event type has a field that no line has."""
        fields = event_fields(event)
        for field in fields:
            _check_field(field, f"{event.__name__}.{field.name}")
        wanted = [(field.key, _NAMES.index(field.name), _read(field)) for field in fields if field.name in _NAMES]
        needed = [_NAMES.index(f.name) for f in fields if f.name in _REQUEST_FIELDS and not f.optional]
        splits = any(field.name in _REQUEST_FIELDS for field in fields)

        def parse(value: bytes) -> Any:
            damage = None
            try:
                line = value.decode()
            except UnicodeDecodeError as error:
                damage, line = Reject("utf8", f"byte {error.start} is not UTF-8: {error.reason}"), with_damage(value)
            match = _LINE.fullmatch(line)
            if match is None:
                raise damage or Reject("format", _first_fault(line))
            logged = match.groups()
            if splits:
                request = _REQUEST.fullmatch(match[5])
                logged += request.groups() if request else _NO_REQUEST
                for index in needed:
                    if logged[index] is None:
                        raise Reject("request", f"request {match[5]!r} has no {_NAMES[index]}")
            if damage:
                for key, index, _ in wanted:
                    check_text(key, logged[index])
            try:
                return msgspec.convert({key: read(logged[i]) if read else logged[i] for key, i, read in wanted}, event)
            except msgspec.ValidationError as error:
                raise Reject("refused" if error.__cause__ else "invalid_value", str(error)) from error

        return parse

    def listed(self, event: type[Event]) -> Listed:
        """Values with a log line in each line; raises DefinitionError as `parser` does."""
        return by_line(self.parser(event))

    def __str__(self) -> str:
        return call("apache_combined")


def apache_combined() -> ApacheCombined:
    """Decode the Apache combined log format: one value is one line; with `max_events_per_record`, several lines."""
    return ApacheCombined()


def _check_field(field: Field, place: str) -> None:
    if field.name not in _NAMES:
        if field.required:
            valid = listed(field.name, _NAMES)
            raise DefinitionError(f"{place}: the combined log format has no such field; fields: {valid}")
    elif field.arrow != _TYPES[field.name]:
        raise DefinitionError(f"{place}: the combined log format gives this field as {_TYPES[field.name]}, not {field.arrow}")


def _read(field: Field) -> Read | None:
    """The function from a field's text to its value; None if the text is the value."""
    read = _READS.get(field.name)
    if not field.optional:
        return read
    return lambda text: None if text in ("-", None) else read(text) if read else text


def _size(text: str) -> int:
    if len(text) > _INT_DIGITS:
        raise Reject("out_of_range", f"bytes has {len(text)} digits")
    return 0 if text == "-" else int(text)


_READS: dict[str, Read] = {"time": clf_time, "status": int, "bytes": _size}


def _first_fault(line: str) -> str:
    """A sentence that names the first of the nine fields that does not fit the format."""
    pattern = ""
    for name, part in _LINE_FIELDS.items():
        pattern += part
        if not re.match(pattern + (f"{_END}\\Z" if name == "agent" else " "), line, re.ASCII):
            return f"field {name} is missing, incomplete, or not followed by what comes next in the format"
        pattern += " "
    return "not the nine fields of the combined log format"
