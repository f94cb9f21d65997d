r"""Syslog messages of RFC 5424, and of RFC 3164 where a zone is declared: one value is one message.

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
* A line end belongs to the transport (RFC 6587), not to the message. So does a number of bytes before a message, as Heroku and
  rsyslog send it: several such messages in a value may hold line feeds.
* With `structured=False` messages have no STRUCTURED-DATA: so Heroku sends them.
* A text that a field takes must be UTF-8.
* Messages of RFC 3164 (syslog_3164) are rejected without `zone`. With it, times without a zone are on its wall clocks.
  `year="nearest"` reads a time in the year in which it is nearest to the record's timestamp, at most half a year away: also on
  New Year's Eve, and on 29 February in a leap year. `year=2025` reads all times in that year.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, Final

import msgspec
import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import TIMESTAMP, Event, Field
from tandem.views.source.fields.named_fields import builder
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.text_values import check_text, text_fields, with_damage, without_mark
from tandem.views.source.fields.time_reader import refuse_notation
from tandem.views.source.format import Listed, Parse
from tandem.views.source.formats import syslog_3164
from tandem.views.source.formats.syslog_3164 import Parts, Year
from tandem.views.time_zone import ZONES, time_zone

# Possessive quantifiers: no crafted message makes the search backtrack.
_SD_NAME = r"[!#-<>-\\^-~]{1,32}+"  # printable ASCII except space, =, ] and "
_SD_VALUE = r'[^"\\\]]*+(?:\\.[^"\\\]]*+)*+'
_SD_PARAMETERS = rf'(?: {_SD_NAME}="{_SD_VALUE}")*+'
_PARTS = {
    "priority": r"<(?P<priority>0|[1-9]\d{0,2})>1",
    "time": r"(?P<time>-|\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2}))",
    "hostname": r"(?P<hostname>[!-~]{1,255}+)",
    "app": r"(?P<app>[!-~]{1,48}+)",
    "procid": r"(?P<procid>[!-~]{1,128}+)",
    "msgid": r"(?P<msgid>[!-~]{1,32}+)",
    "structured": rf"(?P<structured>-|(?:\[{_SD_NAME}{_SD_PARAMETERS}\])++)",
}
_WITHOUT_STRUCTURED = {**_PARTS, "msgid": _PARTS["msgid"] + "(?P<structured>(?!))?"}
del _WITHOUT_STRUCTURED["structured"]
_FLAGS = re.ASCII | re.DOTALL
_REST = "(?: (?P<message>.*))?"
_ELEMENT = re.compile(rf"\[({_SD_NAME})({_SD_PARAMETERS})\]", _FLAGS)
_PARAMETER = re.compile(rf' ({_SD_NAME})="({_SD_VALUE})"', _FLAGS)
_ESCAPED = re.compile(r'\\(["\\\]])')
_MOST_PRIORITY = 191
_COUNT = re.compile(rb"([1-9]\d{0,8}) (?=<)")
_NUMBER = re.compile(rb"\d+ ")
_LINE_END = re.compile(rb"\r?\n")

_NIL = "-"
_TYPES = {
    "facility": pa.int64(),
    "severity": pa.int64(),
    **dict.fromkeys(("hostname", "app", "procid", "msgid", "structured", "message"), pa.string()),
    "time": TIMESTAMP,
}

Take = Callable[[re.Match[str] | Parts, datetime | None], Any]
"""From a matched message and its record's timestamp to a field's value."""


@dataclass(frozen=True, repr=False)
class Syslog:
    """The decoder of syslog messages; raises DefinitionError for a year that is not "nearest" or a number, or without a zone."""

    header: ClassVar[bool] = False

    structured: bool = True
    zone: str | None = None
    year: Year = "nearest"

    def __post_init__(self) -> None:
        """Check all three."""
        if self.zone is not None:
            time_zone(self.zone)
        if self.year != "nearest" and (self.zone is None or type(self.year) is not int or not 1 <= self.year <= date.max.year):
            raise DefinitionError(f'syslog: year {self.year!r} is neither "nearest" nor, with a zone, a year such as 2026')

    def __repr__(self) -> str:
        """The fields; the name alone at their defaults, as before there were any: it is a part of fingerprints."""
        if (self.structured, self.zone, self.year) == (True, None, "nearest"):
            return "syslog"
        return f"Syslog(structured={self.structured!r}, zone={self.zone!r}, year={self.year!r})"

    @property
    def pinned(self) -> tuple[str, ...]:
        """The package whose version decides what a time in the zone means."""
        return () if self.zone is None else (ZONES,)

    @property
    def record_parts(self) -> tuple[str, ...]:
        """The record's timestamp, where it decides the year."""
        return ("timestamp",) if self.zone is not None and self.year == "nearest" else ()

    def parser(self, event: type[Event]) -> Parse:
        """A function from one message to one event; raises DefinitionError if the event type has a field that no message has."""
        fields = text_fields(event, "a syslog message")
        for field in fields:
            _check_field(field, f"{event.__name__}.{field.name}")
        time = _time if self.zone is None else partial(_time_in_zone, zone=self.zone, year=self.year)
        wanted = [(field.key, _GROUPS.get(field.key, field.key), _take(field, time)) for field in fields if field.key in _TYPES]
        parts = _PARTS if self.structured else _WITHOUT_STRUCTURED
        build = builder(event)  # the messages' times are read here
        matching = re.compile(" ".join(parts.values()) + _REST, _FLAGS).fullmatch

        def parse(value: bytes, timestamp: datetime | None = None) -> Any:
            if _NUMBER.match(value):
                value = _message(value)
            value = without_mark(_line(value))
            damage = None
            try:
                text = value.decode()
            except UnicodeDecodeError as error:
                damage, text = Reject("utf8", f"byte {error.start} is not UTF-8: {error.reason}"), with_damage(value)
            match = matching(text) or (syslog_3164.parts_of(text) if self.zone is not None else None)
            if match is None:
                raise damage or Reject("format", _first_fault(text, parts))
            if match["priority"] and int(match["priority"]) > _MOST_PRIORITY:
                raise Reject("out_of_range", f"priority {match['priority']} is more than {_MOST_PRIORITY}")
            if damage:
                for key, group, _ in wanted:
                    check_text(key, match[group])
            return build({key: take(match, timestamp) for key, _, take in wanted})

        return parse

    def listed(self, event: type[Event]) -> Listed:
        """Values with a message in each line, or each after its number of bytes; raises DefinitionError as `parser` does."""
        parse = self.parser(event)

        def split(value: bytes, *record: Any) -> list[tuple[Any, ...]]:
            messages = _messages(value) if _NUMBER.match(value) else _LINE_END.split(_line(value))
            return [(message, *record) for message in messages]

        return Listed(split, lambda part: parse(*part), shown=itemgetter(0))

    def __str__(self) -> str:
        year = None if self.year == "nearest" else self.year
        text = call("syslog", zone=self.zone, year=year)
        return text if self.structured else text.replace("(", "(structured=False" + ", " * (self.zone is not None), 1)


def syslog(*, structured: bool = True, zone: str | None = None, year: Year = "nearest") -> Syslog:
    """Decode syslog messages of RFC 5424, and with `zone` of RFC 3164, whose times have neither zone nor year.

    One value is one message, also after its number of bytes; with `max_events_per_record`, one message a line. `structured=False`
    reads messages without STRUCTURED-DATA, as Heroku sends them.
    """
    return Syslog(structured, zone, year)


_GROUPS: Final = {"facility": "priority", "severity": "priority"}


def _check_field(field: Field, place: str) -> None:
    if field.key not in _TYPES:
        if field.required:
            raise DefinitionError(f"{place}: a syslog message has no such field; fields: {listed(field.key, _TYPES)}")
    elif field.notation is not None:
        refuse_notation(field, place, "a syslog message")
    elif field.arrow != _TYPES[field.key]:
        raise DefinitionError(f"{place}: a syslog message gives this field as {_TYPES[field.key]}, not {field.arrow}")


def _take(field: Field, time: Take) -> Take:
    """The function from a matched message to a field's value."""
    name = _GROUPS.get(field.key, field.key)
    empty = {"message": "", "structured": "{}"}.get(name)
    read = _READS.get(field.key, str)

    def value_of_nil(text: str | None) -> Any:
        if field.optional:
            return None
        if text is None and empty is None:
            raise Reject("missing_field", f"the message has no {field.key}")
        return empty if text is None else read(text)

    def take(match: re.Match[str] | Parts, _: datetime | None) -> Any:
        text = match[name]
        if text is None or (text == _NIL and name != "message"):
            return value_of_nil(text)
        return read(text)

    def take_time(match: re.Match[str] | Parts, timestamp: datetime | None) -> Any:
        return None if field.optional and match[name] in (None, _NIL) else time(match, timestamp)

    return take_time if name == "time" else take


def _line(value: bytes) -> bytes:
    """The value without its line end."""
    return value[:-2] if value.endswith(b"\r\n") else value.removesuffix(b"\n")


def _message(value: bytes) -> bytes:
    """The message after its number of bytes, one of which a file's line end may have been; raises Reject for another number."""
    count = _COUNT.match(value)
    if count is None or int(count[1]) - len(value) + count.end() not in (0, 1):
        raise Reject(
            "format", f"{len(value) - (count.end() if count else 0)} bytes after {value[:10]!r}, which is not their number"
        )
    return value[count.end() :]


def _messages(value: bytes) -> list[bytes]:
    """The messages of a value, each after its number of bytes. Raises Reject if they do not end where the value does."""
    messages: list[bytes] = []
    place = 0
    while place < len(value):
        count = _COUNT.match(value, place)
        if count is None:
            raise Reject("format", f"message {len(messages)} has no number of bytes at byte {place}")
        end = count.end() + int(count[1])
        if end > len(value) + 1:
            raise Reject("format", f"message {len(messages)} has {len(value) - count.end()} bytes, not {int(count[1])}")
        messages.append(value[count.end() : end])
        place = end + (value[end : end + 1] == b"\n")
    return messages


def _time(match: re.Match[str] | Parts, _: datetime | None) -> datetime:
    if match["time"] == _NIL:
        raise Reject("missing_field", "the message has no time")
    return syslog_3164.iso_time(match["time"] or "")


def _time_in_zone(match: re.Match[str] | Parts, timestamp: datetime | None, *, zone: str, year: Year) -> datetime:
    return _time(match, timestamp) if isinstance(match, re.Match) else syslog_3164.time_of(match, zone, year, timestamp)


def _structured(text: str) -> str:
    """The elements as one JSON object, by name in order; each has its parameters by name, each with its values in order."""
    elements: dict[str, dict[str, list[str]]] = {}
    for name, parameters in _ELEMENT.findall(text):
        if name in elements:
            raise Reject("repeated_key", f"structured data {name!r} occurs twice in one message")
        elements[name] = {}
        for key, value in _PARAMETER.findall(parameters):
            elements[name].setdefault(key, []).append(_ESCAPED.sub(r"\1", value) if "\\" in value else value)
    return msgspec.json.encode(elements).decode()


_READS: Final[dict[str, Callable[[str], Any]]] = {
    "facility": lambda text: int(text) >> 3,
    "severity": lambda text: int(text) & 7,
    "structured": lambda text: "{}" if text == _NIL else _structured(text),
    "message": lambda text: text.removeprefix("\ufeff"),
}


def _first_fault(text: str, parts: Mapping[str, str]) -> str:
    """A sentence that names the first part of the message that does not fit the format."""
    pattern = ""
    for name, part in parts.items():
        pattern += part
        if not re.match(pattern + (r"(?: |\n?\Z)" if name == [*parts][-1] else " "), text, _FLAGS):
            return f"{name} is missing, malformed, too long, or not followed by what comes next in the format"
        pattern += " "
    return "not a message of RFC 5424"
