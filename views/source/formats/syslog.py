r"""Syslog messages of RFC 5424: one value is one message.

    <165>1 2003-10-11T22:14:15.003Z host app 8710 ID47 [example@32473 iut="3"] text

The event type takes what it needs by name:

| field        | type     | value                                                                                  |
| ------------ | -------- | -------------------------------------------------------------------------------------- |
| `facility`   | int      | 0 to 23: the priority divided by 8                                                     |
| `severity`   | int      | 0 (emergency) to 7 (debug): the remainder                                              |
| `time`       | datetime | TIMESTAMP, which has a zone; digits beyond the microsecond are cut                     |
| `hostname`   | str      | HOSTNAME                                                                               |
| `app`        | str      | APP-NAME                                                                               |
| `procid`     | str      | PROCID                                                                                 |
| `msgid`      | str      | MSGID                                                                                  |
| `structured` | str      | STRUCTURED-DATA as JSON, `{"example@32473":{"iut":["3"]}}`: a name may be repeated     |
| `message`    | str      | MSG without a byte order mark; null or empty if there is none                          |

* The nil value `-` is null in an Optional field. Elsewhere it stays `-` in a text and is `{}` in `structured`; a message without
  a time is rejected.
* A line feed at the end belongs to the transport (RFC 6587), not to the message.
* The whole value must be UTF-8.
* Messages of RFC 3164 are rejected.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar

import msgspec
import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import TIMESTAMP, Event, Field
from tandem.views.source.fields.named_fields import built
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import check_text, text_fields, with_damage
from tandem.views.source.fields.times import cut
from tandem.views.source.format import Listed, Parse
from tandem.views.source.formats.lines import by_line

# Possessive quantifiers: no crafted message makes the search backtrack.
_SD_NAME = r"[!#-<>-\\^-~]{1,32}+"  # printable ASCII except space, =, ] and "
_SD_VALUE = r'[^"\\\]]*+(?:\\.[^"\\\]]*+)*+'
_SD_PARAMETERS = rf'(?: {_SD_NAME}="{_SD_VALUE}")*+'
_PARTS = {
    "priority": r"<(0|[1-9]\d{0,2})>1",
    "time": r"(-|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2}))",
    "hostname": r"([!-~]{1,255}+)",
    "app": r"([!-~]{1,48}+)",
    "procid": r"([!-~]{1,128}+)",
    "msgid": r"([!-~]{1,32}+)",
    "structured": rf"(-|(?:\[{_SD_NAME}{_SD_PARAMETERS}\])++)",
}
_FLAGS = re.ASCII | re.DOTALL
_MESSAGE = re.compile(" ".join(_PARTS.values()) + "(?: (.*))?", _FLAGS)
_ELEMENT = re.compile(rf"\[({_SD_NAME})({_SD_PARAMETERS})\]", _FLAGS)
_PARAMETER = re.compile(rf' ({_SD_NAME})="({_SD_VALUE})"', _FLAGS)
_ESCAPED = re.compile(r'\\(["\\\]])')
_MOST_PRIORITY = 191

_NIL = "-"
_TYPES = {
    "facility": pa.int64(),
    "severity": pa.int64(),
    **dict.fromkeys(("hostname", "app", "procid", "msgid", "structured", "message"), pa.string()),
    "time": TIMESTAMP,
}

Take = Callable[[re.Match[str]], Any]


@dataclass(frozen=True)
class Syslog:
    """The decoder of syslog messages."""

    header: ClassVar[bool] = False

    def parser(self, event: type[Event]) -> Parse:
        """A function from one message to one event; raises DefinitionError if the event type has a field that no message has."""
        fields = text_fields(event, "a syslog message")
        for field in fields:
            _check_field(field, f"{event.__name__}.{field.name}")
        wanted = [(field.key, _group(field), _take(field)) for field in fields if field.key in _TYPES]

        def parse(value: bytes) -> Any:
            damage = None
            try:
                text = value.decode()
            except UnicodeDecodeError as error:
                damage, text = Reject("utf8", f"byte {error.start} is not UTF-8: {error.reason}"), with_damage(value)
            match = _MESSAGE.fullmatch(text.removesuffix("\n"))
            if match is None:
                raise damage or Reject("format", _first_fault(text))
            if int(match[1]) > _MOST_PRIORITY:
                raise Reject("out_of_range", f"priority {match[1]} is more than {_MOST_PRIORITY}")
            if damage:
                for key, group, _ in wanted:
                    check_text(key, match[group])
            return built(event, {key: take(match) for key, _, take in wanted})

        return parse

    def listed(self, event: type[Event]) -> Listed:
        """Values with a message in each line; raises DefinitionError as `parser` does."""
        return by_line(self.parser(event))

    def __str__(self) -> str:
        return call("syslog")


def syslog() -> Syslog:
    """Decode syslog messages of RFC 5424: one value is one message; with `max_events_per_record`, one message a line."""
    return Syslog()


def _check_field(field: Field, place: str) -> None:
    if field.key not in _TYPES:
        if field.required:
            raise DefinitionError(f"{place}: a syslog message has no such field; fields: {listed(field.key, _TYPES)}")
    elif field.arrow != _TYPES[field.key]:
        raise DefinitionError(f"{place}: a syslog message gives this field as {_TYPES[field.key]}, not {field.arrow}")


def _group(field: Field) -> int:
    """The number of a field's group in a matched message."""
    return {"facility": 1, "severity": 1, "message": 8}.get(field.key) or list(_PARTS).index(field.key) + 1


def _take(field: Field) -> Take:
    """The function from a matched message to a field's value."""
    if field.key == "facility":
        return lambda match: int(match[1]) >> 3
    if field.key == "severity":
        return lambda match: int(match[1]) & 7
    if field.key == "message":
        return lambda match: None if match[8] is None and field.optional else (match[8] or "").removeprefix("\ufeff")
    number = _group(field)
    read = {"time": _time, "structured": _structured}.get(field.key, str)
    return lambda match: None if match[number] == _NIL and field.optional else read(match[number])


def _time(text: str) -> datetime:
    if text == _NIL:
        raise Reject("missing_field", "the message has no time")
    try:
        return msgspec.convert(cut(text), datetime)
    except msgspec.ValidationError as error:
        raise Reject("invalid_value", f"time {text!r} does not exist") from error


def _structured(text: str) -> str:
    """The elements as one JSON object, by name in order; each has its parameters by name, each with its values in order."""
    elements: dict[str, dict[str, list[str]]] = {}
    for name, parameters in _ELEMENT.findall(text):
        if name in elements:
            raise Reject("repeated_key", f"structured data {name!r} occurs twice in one message")
        elements[name] = {}
        for key, value in _PARAMETER.findall(parameters):
            elements[name].setdefault(key, []).append(_ESCAPED.sub(r"\1", value))
    return msgspec.json.encode(elements).decode()


def _first_fault(text: str) -> str:
    """A sentence that names the first part of the message that does not fit the format."""
    pattern = ""
    for name, part in _PARTS.items():
        pattern += part
        if not re.match(pattern + (r"(?: |\n?\Z)" if name == "structured" else " "), text, _FLAGS):
            return f"{name} is missing, malformed, too long, or not followed by what comes next in the format"
        pattern += " "
    return "not a message of RFC 5424"
