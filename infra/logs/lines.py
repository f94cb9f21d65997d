"""A line of a log, as a part wrote it, and as text for a person."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

Level = Literal["debug", "info", "warning", "error"]
LEVELS: Final[tuple[Level, ...]] = get_args(Level)

_OTHER_NAMES: Final[Mapping[str, Level]] = {
    "trace": "debug",
    "warn": "warning",
    "fatal": "error",
    "critical": "error",
    "severe": "error",
}
_NAMED: Final = re.compile(r"\b(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)\b")
_FAULT: Final = re.compile(r"^(tandem: |Traceback |Exception in |Error: |\S+(Error|Exception): )")
_HEAD: Final = 80


@dataclass(frozen=True)
class Line:
    """A message of a part at a time; `known` has the event's other fields, such as its source."""

    time: datetime
    part: str
    level: Level
    text: str
    known: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def document(self) -> dict[str, Any]:
        """As one JSON object."""
        at = self.time.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {"time": at, "level": self.level, "part": self.part, "event": self.text, **self.known}


def parse(written: bytes, part: str, *, at: datetime) -> Line | None:
    """The parsed line; None for a blank line. `at` is the time of writing, for a line without a time.

    A line that no logger wrote, such as the last output of a JVM, is plain text; its level is the level that it names.
    """
    text = written.decode("utf-8", "replace").rstrip()
    if not text.strip():
        return None
    if text.startswith("{") and (event := _event(text, part)):
        return event
    level: Level = "error" if _FAULT.match(text) else "info"
    if found := _NAMED.search(text[:_HEAD]):
        level = _level(found.group())
    return Line(at, part, level, text)


def shown(line: Line) -> str:
    """The line for a person; a stack, if it has one, on lines below."""
    known = {name: value for name, value in line.known.items() if name != "exception"}
    words = "".join(f"  {name}={value}" for name, value in known.items())
    stack = str(line.known.get("exception", "")).strip()
    below = "".join(f"\n    {each}" for each in stack.splitlines())
    at = line.time.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    return f"{at}  {line.level:<7}  {line.part:<15}  {line.text}{words}{below}"


def spoken(written: str) -> str:
    """A raw line of a log in short: for an event its text."""
    event = _event(written, "") if written.startswith("{") else None
    return written if event is None else event.text


def _event(text: str, part: str) -> Line | None:
    try:
        told = json.loads(text)
        said, time = str(told.pop("event")), datetime.fromisoformat(told.pop("time"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    level = _level(str(told.pop("level", "info")))
    told.pop("part", None)
    line = Line(time if time.tzinfo else time.replace(tzinfo=UTC), part, level, said)
    return replace(line, known=told)


def _level(name: str) -> Level:
    lower = name.lower()
    found = next((level for level in LEVELS if level == lower), None)
    return found or _OTHER_NAMES.get(lower, "info")
