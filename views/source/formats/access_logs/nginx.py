r"""Access logs of nginx in any log_format: one value is one line.

    nginx(format='$remote_addr - $remote_user [$time_local] "$request" $status $request_time $upstream_response_time')

The format is that of the server's configuration, its strings put together, or the name `combined`; `escape` is log_format's.
The event type takes what it needs by the names of the variables:

| field                                        | value                                                                   |
| -------------------------------------------- | ----------------------------------------------------------------------- |
| `time_local`, `time_iso8601`, `msec`, as datetime | when the request ended                                             |
| `request_method`, `request_uri`, `server_protocol` | also of `$request`, unless the format has them                     |
| `status`, as int                             | also nginx's own: 000 without an answer, 444, 494 to 499               |
| any variable, as str                         | its text, escapes read back (log_escapes)                               |
| any variable, as another type                | what its text says, as in fields.text_values or an annotation of the field |
| any variable, as list                        | its values, between `, ` and ` : `: of each server that nginx asked     |

* `-`, and an empty text, are null in an Optional field, and in an Optional item of a list. Elsewhere a str takes them.
* A variable named `upstream_...` or `..._forwarded_for` may have spaces between its values, also without quotes.
* Two variables without anything between them, or an unquoted `$request`, have no certain end: such a format is refused.
* A byte that is not UTF-8 rejects the line only in a field that the event type takes.
* With escape=none nothing shows whether a quote ends a text: a line with a quote inside a text is rejected.
* A port is empty where the client, or the server, uses a socket of UNIX.
* `nginx_json()` reads objects of escape=json.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, get_args

import pyarrow as pa

from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError
from tandem.views.source.event import TIMESTAMP, Event
from tandem.views.source.format import Parse
from tandem.views.source.formats.access_logs.clf_time import CLF_TIME
from tandem.views.source.formats.access_logs.log_escapes import unescape_json, unescape_nginx
from tandem.views.source.formats.access_logs.log_lines import LineLayout, Slot, line_parser
from tandem.views.source.formats.access_logs.log_slots import DIGITS, LIST, LIST_SEPARATOR, PORT, TEXT, lines_of
from tandem.views.source.formats.access_logs.nginx_values import EMPTY, TIMES
from tandem.views.source.formats.lines import EventOfLine

Escape = Literal["default", "json", "none"]

COMBINED: Final = (
    '$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"'
)
"""What nginx calls combined."""
REQUEST_PARTS: Final = ("request_method", "request_uri", "server_protocol")

_VARIABLE: Final = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)
_LISTS: Final = re.compile(r"upstream_\w+|\w+_forwarded_for")
_PATTERNS: Final = {
    "time_local": CLF_TIME,
    "msec": r"[\d.]++",
    "status": r"\d{3}",
    **dict.fromkeys(("connection", "connection_requests", "pid", "request_length"), DIGITS),
    **dict.fromkeys(("remote_port", "server_port"), PORT),
    **dict.fromkeys(("body_bytes_sent", "bytes_sent"), DIGITS),
    "is_args": r"\??+",
}
_UNESCAPE: Final[dict[Escape, Callable[[str], str] | None]] = {"default": unescape_nginx, "json": unescape_json, "none": None}


@dataclass(frozen=True)
class Nginx(EventOfLine):
    """The decoder of nginx's access logs in one `format`; raises DefinitionError for a format that has no certain reading."""

    format: str
    escape: Escape = "default"

    def __post_init__(self) -> None:
        """Check both."""
        if self.escape not in get_args(Escape):
            raise DefinitionError(f'nginx: escape {self.escape!r} is not "default", "json" or "none"')
        _layout(self.format, self.escape)

    def parser(self, event: type[Event]) -> Parse:
        """A function from one line to one event; raises DefinitionError if the event type has a field that no line has."""
        return line_parser(_layout(self.format, self.escape), event)

    def __str__(self) -> str:
        return call("nginx", format=self.format, escape=None if self.escape == "default" else self.escape)


def nginx(*, format: str, escape: Escape = "default") -> Nginx:  # noqa: A002  the word of the server
    """Decode access logs of nginx: `format` is its log_format, or combined; `escape` is that of log_format.

    One value is one line; with `max_events_per_record`, several lines. The fields are the format's variables.
    """
    return Nginx(format, escape)


@lru_cache(maxsize=256)
def _layout(format_: str, escape: Escape) -> LineLayout:
    if not isinstance(format_, str) or not (format_ == "combined" or _VARIABLE.search(format_)):
        raise DefinitionError(f"nginx: format {format_!r} is neither combined nor a log_format such as {COMBINED!r}")
    text = COMBINED if format_ == "combined" else format_
    what = f"the log format {format_!r}"
    return lines_of(what, _tokens(text, escape), request=REQUEST_PARTS, escapes=escape != "none")


def _tokens(text: str, escape: Escape) -> Iterator[str | Slot]:
    place = 0
    for match in _VARIABLE.finditer(text):
        yield text[place : match.start()]
        place = match.end()
        name = match[1] or match[2]
        read = TIMES.get(name)
        yield Slot(
            name,
            _PATTERNS.get(name) or (LIST if _LISTS.fullmatch(name) else TEXT),
            TIMESTAMP if read else pa.int64() if name == "status" else None,
            int if name == "status" else read,
            empty=EMPTY,
            unescape=_UNESCAPE[escape],
            several=LIST_SEPARATOR,
        )
    yield text[place:]
