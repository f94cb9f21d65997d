"""Server-sent events of a server's changes in a Python program."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec


@dataclass(frozen=True)
class ServerChanges:
    """Rows that changed, and the keys and windows of those that are gone. `since=token` continues after them.

    Of the output append `late` are changed rows of windows that were final before, or their number; of the output changes
    `changes` are rows before and after, instead of `rows` and `gone`. An update without any of them moves the token on, now and
    then while nothing changes. `over` is why the stream ends, if it does.
    """

    token: str
    rows: list[dict[str, Any]] = field(default_factory=list)
    gone: list[dict[str, Any]] = field(default_factory=list)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    over: str | None = None
    late: list[dict[str, Any]] | int = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)


def lines_of(pieces: Iterable[bytes]) -> Iterator[str]:
    """The lines of a stream that arrives in pieces, each of which ends with a line feed; the last one is left out if it does not.

    Python also breaks text at other characters, such as U+2028, which a row's text may have.
    """
    begun: list[bytes] = []
    for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for line in ended:
            yield b"".join([*begun, line]).decode()
            begun.clear()
        begun.append(rest)


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
            sent = {name: document[name] for name in ("rows", "gone", "late", "changes", "provenance") if name in document}
            yield ServerChanges(event.get("id", ""), over=over, **sent)
            event = {}
