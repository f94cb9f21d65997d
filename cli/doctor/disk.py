"""Checks of the state folder and of free disk space."""

import os
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok
from tandem.cli.doctor.subject import Subject
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import ranges
from tandem.views.errors import TandemError

_LEAST: Final = 2_000_000_000
_MEND: Final = "free disk space; or stop everything, move the folder to a larger disk and set `state` or `storage.root`"
FULL: Final = FailedCheck("fail", "free space is below 2 GB, or below the size of the last archive run", _MEND)
SHORT: Final = FailedCheck(
    "warn",
    "free space is below the size of log and views: a full recompute or `tandem maintain` may rewrite them before it "
    "deletes the old files",
    f"{_MEND}; a smaller `[keep]` lets `tandem maintain` free more",
)


def _state(subject: Subject) -> Iterator[Finding]:
    found = []
    for folder in _folders(subject):
        existing = _existing(folder)
        if not existing.is_dir():
            raise TandemError(f"cannot create {folder}: {existing} is not a folder")
        if not os.access(existing, os.W_OK):
            raise TandemError(f"cannot write to {folder}: {existing} is not writable")
        found.append(f"{folder}" if existing == folder else f"{folder}, not created yet")
    if not subject.tables.local:
        found.append(_object_store(subject.tables))
    yield ok("; tables in ".join(found))


def _object_store(tables: Tables) -> str:
    try:
        tables.storage().head("control")
    except OSError as error:
        raise TandemError(f"cannot reach {tables.root}: {error}") from error
    return tables.root


def _disk(subject: Subject) -> Iterator[Finding]:
    fine = []
    for folder in _folders(subject):
        tables = subject.tables.local and Path(subject.tables.root).is_relative_to(folder)
        sizes = _table_sizes(subject.tables) if tables else {}
        taken = sum(size for name, size in sizes.items() if name[0] in ("log", "views"))
        grows = _growth(subject.tables, sizes)
        free = shutil.disk_usage(_existing(folder)).free
        found = f"{_gb(free)} free; {folder} uses {_gb(_size(folder))}"
        found += f", of which log and views {_gb(taken)}" if tables else ""
        found += f"; the last archive run wrote about {_gb(grows)}" if grows else ""
        if free < max(_LEAST, grows):
            yield FULL.found(found)
        elif free < taken + grows:
            yield SHORT.found(found)
        else:
            fine.append(found)
    if len(fine) == len(_folders(subject)):
        yield ok("; ".join(fine))


def _folders(subject: Subject) -> list[Path]:
    """Return the state folder and, if it is another one of this machine, the folder of the tables."""
    state, root = subject.settings.folder, Path(subject.tables.root)
    return [state] if not subject.tables.local or root.is_relative_to(state) else [state, root]


def _growth(tables: Tables, sizes: Mapping[tuple[str, str], int]) -> int:
    """Estimate the bytes that the newest archive run of each source wrote, from its share of all offsets."""
    grows = 0
    for (kind, source), size in sizes.items():
        if kind == "log" and source:
            lengths = [ranges(run.start, run.end, run.firsts).length for run in ArchiveLedger(tables, source).runs()]
            grows += size * lengths[-1] // sum(lengths) if lengths else 0
    return grows


def _table_sizes(tables: Tables) -> Counter[tuple[str, str]]:
    """Bytes of the tables' files, by the first two parts of their names, "" where there are none."""
    sizes = Counter[tuple[str, str]]()
    for head in tables.storage().list_after(""):
        first, second, *_ = (*head.name.split("/")[:-1], "", "")
        sizes[first, second] += head.size
    return sizes


def _size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    size = 0
    for place, _, files in os.walk(folder):
        for file in files:
            with suppress(FileNotFoundError):  # deleted meanwhile
                size += (Path(place) / file).lstat().st_size
    return size


def _existing(folder: Path) -> Path:
    return next(path for path in (folder, *folder.parents) if path.exists())


def _gb(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


CHECKS: Final = (
    Check(
        "state",
        _state,
        FailedCheck(
            "fail",
            "the state folder or that of the tables cannot be used",
            "make the named folder writable, or set `state` or `storage.root` to another folder; an object store has to answer",
        ),
        needs=("settings",),
    ),
    Check(
        "disk",
        _disk,
        FailedCheck("fail", "the state folder or one of its journals cannot be read", "see `tables`"),
        (FULL, SHORT),
        needs=("state",),
    ),
)
