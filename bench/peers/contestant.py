"""The port of `bench peers`: what a contestant is, and what it is given."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from tandem.bench.peers.events import Answers
from tandem.bench.peers.provided import Provided
from tandem.infra import kafka
from tandem.infra.files import private_files

DEDUP_MINUTES: Final = 10
"""Every contestant keeps ids for at least this long."""
MARKED: Final = "/m/"
"""The start of the pages of markers."""


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What every contestant gets: `memory` bounds the heap of a JVM, in Java's notation.

    `fresh` tells whether the run measures freshness; otherwise it reads a topic that was filled before.
    """

    cores: int
    memory: str
    fresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Setting(Resources):
    """What a contestant is given in one run besides: an empty folder of its own, a topic to read, and an empty topic to write."""

    folder: Path
    connection: kafka.BrokerConnection
    topic: str
    output: str
    provided: Provided

    def private(self, name: str, content: str) -> Path:
        """A file of this run that only its owner can read, because it holds the broker's login."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        private_files.write(path, content)
        return path

    def config(self, name: str, fields: Mapping[str, Any]) -> Path:
        """Such a file of JSON."""
        return self.private(name, json.dumps(fields))

    def librdkafka(self) -> dict[str, str]:
        """The options of a librdkafka client that reaches the broker."""
        address = self.connection.address
        return {"bootstrap.servers": address.bootstrap, **address.options}


@dataclass(frozen=True)
class ContestantCommand:
    """A process of a contestant, and what its environment has beyond the benchmark's."""

    words: tuple[str, ...]
    environ: Mapping[str, str] = field(default_factory=dict)


class ContestantOutput(Protocol):
    """What a contestant shows of its view."""

    def version(self) -> object:
        """A value that changes whenever the contestant publishes something, cheap to read; None before the first time."""

    def read(self) -> tuple[Answers, float]:
        """All rows, and when the last of them was published, in seconds since the epoch."""


@dataclass(frozen=True)
class Contestant:
    """A system that keeps the view fresh. `version` is its own; `settings` are those that differ from its defaults, as printed.

    * `command` starts it. It prints the line `READY`, with the time in milliseconds, before it reads; a program that does not
      print it has `ready`, which returns the time or None.
    * `reader` starts a program that follows the view: it prints each new page that begins with `MARKED`, and when it saw it in
      seconds since the epoch, until its input ends. `asked`: its questions cost the contestant something.
    """

    name: str
    version: Callable[[], str]
    settings: Callable[[Resources], Mapping[str, str]]
    command: Callable[[Setting], ContestantCommand]
    output: Callable[[Setting], ContestantOutput]
    reader: Callable[[Setting], ContestantCommand]
    ready: Callable[[Setting], float | None] | None = None
    asked: bool = False


def ready_line(log: Path) -> float | None:
    """The time of the line `READY` of a log, in seconds since the epoch; None before it is there."""
    for line in log.read_text("utf-8", "replace").splitlines():
        if line.startswith("READY "):
            return int(line.split()[1]) / 1000
    return None
