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

* Text stays as logged, escapes (`\"`, `\\`, `\xhh`) included: `apache(format="combined")` reads them back.
* A field declared Optional is null where the log has `-`.
* A request line that is not METHOD TARGET PROTOCOL (a probe that is not HTTP, a connection that timed out) has no method, path or
  protocol: they are null in Optional fields; an event type that requires one rejects the line.
* A byte that is not UTF-8 rejects the line only in a field that the event type takes.
* A line that lacks one of the nine fields or a closing quote is rejected.
* A line with a space in `user` is rejected, because the space could also separate fields.
"""

from dataclasses import dataclass, replace
from typing import Final

from tandem.views.definition_text import call
from tandem.views.source.event import Event
from tandem.views.source.format import Parse
from tandem.views.source.formats.access_logs.apache import COMBINED, REQUEST_PARTS, format_tokens
from tandem.views.source.formats.access_logs.log_lines import Slot, line_parser
from tandem.views.source.formats.access_logs.log_slots import lines_of
from tandem.views.source.formats.lines import EventOfLine

_WHAT: Final = "the combined log format"
_LAYOUT: Final = lines_of(
    _WHAT,
    (replace(part, unescape=None, several=None) if isinstance(part, Slot) else part for part in format_tokens(COMBINED, _WHAT)),
    request=REQUEST_PARTS,
)


@dataclass(frozen=True)
class ApacheCombined(EventOfLine):
    """The decoder of Apache's combined log format."""

    def parser(self, event: type[Event]) -> Parse:
        """A function from one line to one event; raises DefinitionError if the event type has a field that no line has."""
        return line_parser(_LAYOUT, event)

    def __str__(self) -> str:
        return call("apache_combined")


def apache_combined() -> ApacheCombined:
    """Decode the Apache combined log format: one value is one line; with `max_events_per_record`, several lines."""
    return ApacheCombined()
