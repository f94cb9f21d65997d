r"""Access logs of Apache's httpd in any LogFormat: one value is one line.

    apache(format='%v:%p %h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i" %D')

The format is that of the server's configuration, whose `\"` may stay, or a name that Debian's configuration gives: `common`,
`combined`, `vhost_combined`, `vhost_common`, `combinedio`. The event type takes what it needs by name:

| directive           | field               | type     | value                                                      |
| ------------------- | ------------------- | -------- | ---------------------------------------------------------- |
| `%h`                | `host`              | text     | the client's name or address                               |
| `%a`, `%{c}a`, `%A` | `client`, `peer`, `local_address` | text | addresses                                       |
| `%l`, `%u`          | `ident`, `user`     | text     | its RFC 1413 identity, the authenticated user              |
| `%t`                | `time`              | datetime | when the request arrived, `[17/May/2015:10:05:03 +0000]`   |
| `%{sec}t`, `%{msec}t`, `%{usec}t` | `time` | datetime | numbers since 1970                                     |
| `%{%Y-%m-%dT%T%z}t` | `time`            | datetime | its pattern; `%{%F %T}t.%{usec_frac}t %{%z}t` write one time |
| `%{end:...}t`       | `end_time`          | datetime | when the answer ended                                      |
| `%r`                | `request`           | text     | the request's first line                                   |
| `%m`, `%U`, `%q`, `%H` | `method`, `path`, `query`, `protocol` | text | its parts. `%r` gives them, too: `path` with the query |
| `%s`, `%>s`         | `status`            | int      | the status                                                 |
| `%b`, `%B`          | `bytes`             | int      | the size of the answer's body; `-` counts as 0             |
| `%I`, `%O`, `%S`    | `received`, `sent`, `transferred` | int | sizes with headers                               |
| `%D`, `%T`          | `duration_us`, `duration_s` | int | how long the request took; also `%{us}T`, `%{ms}T`, `%{s}T` |
| `%p`                | `port`              | int      | also `local_port` and `remote_port`, of `%{local}p` and `%{remote}p` |
| `%v`, `%V`          | `vhost`, `server_name` | text  | names of the server                                        |
| `%P`, `%{tid}P`     | `pid`, `tid`        | int      | process and thread                                         |
| `%f`, `%k`, `%L`, `%R`, `%X` | `file`, `keepalive`, `log_id`, `handler`, `connection` | text |                |
| `%{Referer}i`, `%{User-Agent}i` | `referer`, `agent` | text |                                                     |
| `%{X-Name}i`, `o`, `C`, `e`, `n`, `x` | `header_x_name`, `response_`, `cookie_`, `env_`, `note_`, `var_` | text | by name |

* A text is read by the type of its field, as in fields.text_values. A list field takes the values of a list, such as those of
  `%{X-Forwarded-For}i`.
* Escapes (`\"`, `\\`, `\t`, `\xhh`) are read back (log_escapes).
* `-` is null in an Optional field. Elsewhere a str takes it, and sizes are 0. A `""` without quotes around, as of `%u`, is empty.
* Where a directive names statuses, `%400,501D`, the `-` of an answer of another status is a missing value, also for a size.
* Two values without anything between them, or an unquoted `%r`, have no certain end: such a format is refused.
* Other rules are those of apache_combined, which keeps escapes as they are logged.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError, listed
from tandem.views.source.event import TIMESTAMP, Event
from tandem.views.source.format import Parse
from tandem.views.source.formats.access_logs.apache_time import time_slot
from tandem.views.source.formats.access_logs.clf_time import CLF_TIME, clf_time
from tandem.views.source.formats.access_logs.log_escapes import unescape_apache
from tandem.views.source.formats.access_logs.log_lines import REQUEST, LineLayout, Slot, integer, line_parser
from tandem.views.source.formats.access_logs.log_slots import DIGITS, LIST, LIST_SEPARATOR, TEXT, WORD, lines_of
from tandem.views.source.formats.lines import EventOfLine

COMMON: Final = '%h %l %u %t "%r" %>s %b'
COMBINED: Final = f'{COMMON} "%{{Referer}}i" "%{{User-Agent}}i"'
FORMATS: Final = {
    "common": COMMON,
    "combined": COMBINED,
    "combinedio": f"{COMBINED} %I %O",
    "vhost_common": f"%v {COMMON}",
    "vhost_combined": f"%v:%p {COMBINED.replace('%b', '%O')}",
}
"""The formats with names: of Apache's documentation, and vhost_combined of Debian's configuration."""
REQUEST_PARTS: Final = ("method", "path", "protocol")

_DIRECTIVE: Final = re.compile(r"%((?:!?[0-9,]+|[<>])*)(?:\{([^}]*)\})?((?:!?[0-9,]+|[<>])*)(\^t[io]|[a-zA-Z%])")
_ESCAPE: Final = re.compile(r'\\(["\\nt])')
_CONTROLS: Final = {"n": "\n", "t": "\t"}
_TEXTS: Final = {
    "h": "host", "a": "client", "A": "local_address", "l": "ident", "u": "user", "r": REQUEST, "m": "method", "U": "path",
    "q": "query", "H": "protocol", "v": "vhost", "V": "server_name", "f": "file", "k": "keepalive", "L": "log_id", "R": "handler",
    "X": "connection",
}  # fmt: skip
_NUMBERS: Final = {
    "s": "status", "b": "bytes", "B": "bytes", "I": "received", "O": "sent", "S": "transferred",
    "D": "duration_us", "T": "duration_s", "p": "port", "P": "pid",
    "{us}T": "duration_us", "{ms}T": "duration_ms", "{s}T": "duration_s", "{canonical}p": "port", "{local}p": "local_port",
    "{remote}p": "remote_port", "{pid}P": "pid", "{tid}P": "tid",
}  # fmt: skip
_PREFIXES: Final = {
    "i": "header", "o": "response", "C": "cookie", "e": "env", "n": "note", "x": "var",
    "^ti": "trailer", "^to": "response_trailer",
}  # fmt: skip
_NAMES: Final = {"header_referer": "referer", "header_user_agent": "agent"}


@dataclass(frozen=True)
class Apache(EventOfLine):
    """The decoder of Apache's access logs in one `format`; raises DefinitionError for a format that has no certain reading."""

    format: str

    def __post_init__(self) -> None:
        """Check the format."""
        _layout(self.format)

    def parser(self, event: type[Event]) -> Parse:
        """A function from one line to one event; raises DefinitionError if the event type has a field that no line has."""
        return line_parser(_layout(self.format), event)

    def __str__(self) -> str:
        return call("apache", format=self.format)


def apache(*, format: str) -> Apache:  # noqa: A002  the word of the server
    """Decode access logs of Apache's httpd: `format` is its LogFormat, or common, combined, vhost_combined, combinedio.

    One value is one line; with `max_events_per_record`, several lines. The fields are those of the format's directives.
    """
    return Apache(format)


def format_tokens(format_: str, what: str) -> Iterator[str | Slot]:
    """The literal texts and slots of a LogFormat; raises DefinitionError that names `what` for an unknown directive."""
    text = _ESCAPE.sub(lambda match: _CONTROLS.get(match[1], match[1]), format_)
    place = 0
    times: list[str] = []
    for match in _DIRECTIVE.finditer(text):
        literal = _literal(text[place : match.start()], what)
        place = match.end()
        argument, letter = match[2], match[4]
        if letter == "t" and argument and (not times or _goes_on(times[-1], argument)):
            # Several directives, such as seconds and their fraction, write one time.
            yield from () if times else literal
            times += [literal[0], argument] if times else [argument]
            continue
        if times:
            yield time_slot(times, what)
            times = []
        yield from literal
        if letter == "t" and argument:
            times = [argument]
        else:
            some_statuses = any(character.isdigit() for character in match[1] + match[3])
            yield from _directive(argument or "", letter, what, some_statuses=some_statuses)
    if times:
        yield time_slot(times, what)
    yield from _literal(text[place:], what)


@lru_cache(maxsize=256)
def _layout(format_: str) -> LineLayout:
    if not isinstance(format_, str) or not format_:
        raise DefinitionError(f"apache: format {format_!r} is not a LogFormat such as {COMMON!r}")
    if "%" not in format_ and format_ not in FORMATS:
        raise DefinitionError(f"apache: unknown format {format_!r}; named formats: {listed(format_, FORMATS)}")
    what = f"the log format {format_!r}"
    return lines_of(what, format_tokens(FORMATS.get(format_, format_), what), request=REQUEST_PARTS)


def _goes_on(before: str, argument: str) -> bool:
    """Whether a directive of time is a part of the time before it: both of the begin, or both of the end, of the request."""
    return before.startswith("end:") == argument.startswith("end:")


def _literal(text: str, what: str) -> tuple[str]:
    if "%" in text:
        raise DefinitionError(f"{what}: {text[text.index('%') :]!r} does not begin with a directive")
    return (text,)


def _directive(argument: str, letter: str, what: str, *, some_statuses: bool) -> tuple[str | Slot, ...]:
    """The slots of a directive; with `some_statuses`, as `%400,501D` has them, answers of other statuses have a `-` there."""
    if letter == "%":
        return ("%",)
    if letter == "t" and not argument:
        return "[", Slot("time", CLF_TIME, TIMESTAMP, clf_time, only=True), "]"
    if (letter, argument) == ("a", "c"):
        return (_text("peer", WORD),)
    if letter in _PREFIXES and argument:
        name = f"{_PREFIXES[letter]}_{re.sub(r'[^a-z0-9]+', '_', argument.lower())}"
        return (_text(_NAMES.get(name, name), LIST if name.endswith("_forwarded_for") else TEXT),)
    name = _NUMBERS.get(f"{{{argument}}}{letter}" if argument else letter, "")
    if name == "status":
        return (Slot(name, r"(?:\d{3}|-)", pa.int64(), int, only=True),)
    if name:
        size = letter in "bBISO"
        pattern = r"(?:\d++|-)" if size or some_statuses else DIGITS
        return (Slot(name, pattern, pa.int64(), integer(name), only=True, zero=None if some_statuses or not size else 0),)
    if letter in _TEXTS and not argument:
        return (_text(_TEXTS[letter], TEXT if letter in "qf" else WORD),)
    raise DefinitionError(f"{what}: unknown directive %{f'{{{argument}}}' if argument else ''}{letter}")


def _text(name: str, pattern: str) -> Slot:
    # %X has - for a connection that is closed.
    return Slot(name, pattern, empty=() if name == "connection" else ("-",), unescape=unescape_apache, several=LIST_SEPARATOR)
