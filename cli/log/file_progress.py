"""Progress through the records of files on stderr: a bar on a terminal, elsewhere a line at intervals."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tandem.cli.command.call import Call
from tandem.cli.records.input_stream import can_be_read_twice
from tandem.cli.records.parquet.parquet_values import SUFFIXES
from tandem.views.counted import remaining_time, share

_LOOK_EVERY: Final = 1000
"""Records between two looks at the clock."""
_LINE_S: Final = 15.0
_BAR_COLUMNS: Final = 20
_PACKED: Final = (".gz", ".zst", *SUFFIXES)

Advance = Callable[[int, int], None]
"""Takes the number of records so far, and the bytes of the newest one."""


@contextmanager
def file_progress(call: Call, total: int | None, *, now: Callable[[], float] = time.monotonic) -> Iterator[Advance]:
    """Show how many records were read, the share of `total` bytes, the rate and the time left; without a total no share."""
    begun, done = now(), 0

    with _bar(call, total) if sys.stderr.isatty() else _lines(call, now) as show:

        def advance(number: int, size: int) -> None:
            nonlocal done
            done += size
            if number % _LOOK_EVERY == 0:
                show(done, sentence(number, done, total, now() - begun))

        yield advance


def bytes_to_read(files: Sequence[Path]) -> int | None:
    """The bytes of all lines; None if a file is a pipe or packed, so that they are not known before they are read."""
    if not all(can_be_read_twice(file) and file.suffix not in _PACKED for file in files):
        return None
    return sum(file.stat().st_size for file in files)


def sentence(records: int, done: int, total: int | None, seconds: float) -> str:
    """The progress: records, share, rate, time left."""
    parts = [f"{records:,} records"]
    if total:
        parts.append(share(done, total))
    if seconds > 0:
        parts.append(f"{records / seconds:,.0f} a second")
        if total and done:
            parts.append(remaining_time(seconds, done, total))
    return ", ".join(parts)


@contextmanager
def _lines(call: Call, now: Callable[[], float]) -> Iterator[Callable[[int, str], None]]:
    newest = now()

    def show(_: int, text: str) -> None:
        nonlocal newest
        if now() - newest >= _LINE_S:
            newest = now()
            call.say(text)

    yield show


@contextmanager
def _bar(call: Call, total: int | None) -> Iterator[Callable[[int, str], None]]:
    from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415 - only a terminal shows a bar

    columns = (BarColumn(_BAR_COLUMNS), TextColumn("{task.description}"))
    with Progress(*columns, console=call.console(), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda done, text: bar.update(task, completed=done, description=text)
