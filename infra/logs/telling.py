"""A logger of structured events: readable on a terminal, JSON lines elsewhere, and without secrets."""

import json
import os
import sys
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn, Protocol

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger, Processor

from tandem.infra.logs.batch import LogBatch
from tandem.infra.logs.files import LogFile, bounds, log_of
from tandem.infra.settings import MASK, Settings, secrets


@dataclass(frozen=True)
class LogSink:
    """A destination of lines: for people, or for programs."""

    write: Callable[[str], object]
    readable: bool = False

    @property
    def renderer(self) -> Processor:
        """The function that renders an event as a line."""
        if self.readable:
            return structlog.dev.ConsoleRenderer(timestamp_key="time")
        return structlog.processors.JSONRenderer(default=str, ensure_ascii=False)


class Lines(Protocol):
    """A log whose events are all information."""

    def info(self, event: str, **known: Any) -> Any:
        """Log an event with its fields."""
        ...


@dataclass(frozen=True)
class Recorder:
    """A log of many events a second, in the format of `logger`: without the fields of `bound`, and without exceptions.

    Fields are texts, numbers and lists of them. `add` gets each event with its time and its fields.
    """

    now: Callable[[], datetime]
    add: Callable[[tuple[datetime, str, dict[str, Any]]], object]

    def info(self, event: str, **known: Any) -> None:
        """Log an event with its fields, which must not change afterwards."""
        self.add((self.now(), event, known))


@contextmanager
def bound(**known: object) -> Iterator[None]:
    """Adds fields to all events that this thread logs until the block ends: a source, a view, a run, a release, a publication."""
    with structlog.contextvars.bound_contextvars(**known):
        yield


def logger(outputs: Sequence[LogSink], *, part: str, hidden: frozenset[str], now: Callable[[], datetime]) -> FilteringBoundLogger:
    """A logger of a part that writes each event to every output; `hidden` are secrets that none shows, `now` the clock."""
    rendered = [(output.renderer, output.write) for output in outputs]

    def stamped(_: Any, level: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        known = {name: without(value, hidden) for name, value in event.items()}
        return {"time": _text(now()), "level": level, "part": part, **known}

    def written(_: Any, level: str, event: MutableMapping[str, Any]) -> NoReturn:
        for render, write in rendered:
            write(str(render(None, level, dict(event))))
        raise structlog.DropEvent

    made: FilteringBoundLogger = structlog.wrap_logger(
        None,
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.format_exc_info, stamped, written],
        wrapper_class=structlog.make_filtering_bound_logger("info"),
    )
    return made


def without(value: Any, hidden: frozenset[str]) -> Any:
    """A value with every secret in its texts masked, at any depth."""
    if not hidden:
        return value
    if isinstance(value, dict):
        return {name: without(inner, hidden) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without(inner, hidden) for inner in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    text = str(value)
    for secret in hidden:
        text = text.replace(secret, MASK)
    return text


def of_part(settings: Settings, part: str, *, now: Callable[[], datetime]) -> FilteringBoundLogger:
    """The logger of a long-running process: writes to its file in `logs` and, unless that is the same file, to stderr."""
    path = log_of(settings.folder, part)
    standard = _is_stderr(path)
    file = LogSink(LogFile(path, bounds(settings.logs), standard=standard).write)
    outputs = [file] if standard else [file, LogSink(_to_stderr, readable=sys.stderr.isatty())]
    return logger(outputs, part=part, hidden=secrets(settings), now=now)


def filed(settings: Settings, part: str, *, now: Callable[[], datetime]) -> FilteringBoundLogger:
    """The logger of a command that ends by itself: writes only to its file; the command prints its messages for a person."""
    file = LogSink(LogFile(log_of(settings.folder, part), bounds(settings.logs)).write)
    return logger([file], part=part, hidden=secrets(settings), now=now)


@contextmanager
def recorded(settings: Settings, part: str, *, now: Callable[[], datetime]) -> Iterator[Recorder]:
    """The log of a part that writes its lines to its file in batches; all are in the file once the context has ended."""
    hidden = secrets(settings)

    def line(recorded: tuple[datetime, str, dict[str, Any]]) -> str:
        at, event, known = recorded
        told = {"time": _text(at), "level": "info", "part": part, **without(known, hidden), "event": event}
        try:
            return msgspec.json.encode(told, enc_hook=str).decode()
        except UnicodeEncodeError:  # half of a surrogate pair, whose escape the file gets
            return json.dumps(told, default=str, ensure_ascii=False)

    batch = LogBatch(LogFile(log_of(settings.folder, part), bounds(settings.logs)), line)
    try:
        yield Recorder(now, batch.add)
    finally:
        batch.close()


def _text(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _to_stderr(line: str) -> None:
    with suppress(OSError):  # the reader of the output is gone; a failure to log must not end a run
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def _is_stderr(path: Path) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(2))
    except OSError:
        return False
