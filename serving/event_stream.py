"""Server-sent events of a server's changes in a Python program."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True)
class ServerChanges:
    """Rows that changed, and the keys and windows of those that are gone. `since=token` continues after them.

    An update without either moves the token on, now and then while nothing changes. `over` is why the stream ends, if it does.
    """

    token: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    gone: list[dict[str, Any]] = field(default_factory=list)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    over: str | None = None


def parse_events(lines: Iterable[str]) -> Iterator[ServerChanges]:
    """The updates of the lines of a stream; an event that the lines break off is left out."""
    event: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if name:
            event[name] = value
        elif line:
            continue  # a comment
        elif event:
            document = msgspec.json.decode(event.get("data", "{}"))
            over = str(document["detail"]) if event.get("event") == "over" else None
            provenance = document.get("provenance", {})
            yield ServerChanges(event.get("id", ""), document.get("rows", []), document.get("gone", []), provenance, over)
            event = {}
