"""`tandem generate`: a project's own generator, driven against its source's topic.

A generator belongs to its project: `generator.py` says whose records it makes (`SOURCE`), makes them
(`generate(seed, n, base=...)` gives samples of key, value, facts) and adds up what every view must answer (`Truth`).
The command only sends them and keeps the truth beside: `{view: rows as query prints them, exact measures only}`.
"""

import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import Event
from typing import Any, Protocol

from views.errors import TandemError

FILE = "generator.py"
Sample = tuple[bytes | None, bytes, Any]
Row = dict[str, Any]

_TICK_S = 0.01


class NoGenerator(TandemError):
    """The project has no generator that can be used."""


class Truth(Protocol):
    """The independent count of a generator's facts."""

    def add(self, facts: Any) -> None:
        """Count the facts of one well-formed record."""

    def manifest(self) -> dict[str, list[Row]]:
        """View name to its rows, exact measures only."""


@dataclass(frozen=True)
class Generator:
    """What a project's generator.py offers: the source's name, its samples, and an empty truth."""

    source: str
    generate: Callable[..., Iterator[Sample]]
    truth: Callable[[], Truth]


@dataclass(frozen=True)
class Driven:
    """What became of a run: samples handed over, and how many of those were malformed."""

    sent: int
    malformed: int


def load(project: Path) -> Generator:
    """The generator of the project in this folder. Raises NoGenerator, saying what is missing."""
    file = project / FILE
    if not file.is_file():
        raise NoGenerator(f"{project} has no {FILE}; a generator defines SOURCE, generate and Truth, see examples/web/{FILE}")
    spec = importlib.util.spec_from_file_location(f"generator_of_{project.name}", file)
    if spec is None or spec.loader is None:
        raise NoGenerator(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        # Named tuples and dataclasses look their module up while it is read.
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except Exception as error:
        raise NoGenerator(f"{file} cannot be loaded: {type(error).__name__}: {error}") from error
    missing = [name for name in ("SOURCE", "generate", "Truth") if not hasattr(module, name)]
    if missing:
        raise NoGenerator(f"{file} does not define {', '.join(missing)}; a generator defines SOURCE, generate and Truth")
    return Generator(module.SOURCE, module.generate, module.Truth)


def samples(generator: Generator, seed: int, events: int | None, base: datetime, duplicates: float) -> Iterator[Sample]:
    """The first samples of a seed; without a number, all that there will ever be."""
    return generator.generate(seed, sys.maxsize if events is None else events, base=base, duplicates=duplicates)


def drive(
    given: Iterable[Sample],
    truth: Truth | None,
    send: Callable[[bytes, bytes | None], None],
    *,
    skip: int = 0,
    rate: float | None = None,
    stop: Event,
    clock: Callable[[], float] = time.monotonic,
) -> Driven:
    """Send the samples, `rate` a second or as fast as they are taken, until they end or `stop` is set.

    The first `skip` were sent by an earlier run: they count in the truth and are not sent again.
    """
    remaining = iter(given)
    for _, _, facts in islice(remaining, skip):
        if truth is not None and facts is not None:
            truth.add(facts)
    sent = malformed = 0
    start = clock()
    for key, value, facts in remaining:
        while rate is not None and sent >= (clock() - start) * rate and not stop.wait(_TICK_S):
            pass
        if stop.is_set():
            break
        send(value, key)
        sent += 1
        if facts is None:
            malformed += 1
        elif truth is not None:
            truth.add(facts)
    return Driven(sent, malformed)


def write(file: Path, document: dict[str, Any]) -> None:
    """Write the document whole or not at all. Raises TandemError if the file cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                json.dump(document, stream, ensure_ascii=False)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).replace(file)
        finally:
            with suppress(FileNotFoundError):
                Path(name).unlink()
    except OSError as error:
        raise TandemError(f"cannot write the truth to {file}: {error.strerror}") from error


def read(file: Path) -> dict[str, list[Row]]:
    """The views' rows of a truth file. Raises TandemError if it is not one."""
    try:
        views: dict[str, list[Row]] = json.loads(file.read_text("utf-8"))["views"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TandemError(f"{file} is no truth of `tandem generate`: {error}") from error
    return views
