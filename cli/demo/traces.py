"""What the demo of a cluster must leave nowhere: tables in the state folder, and credentials in files or command lines."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

_LOG: Final = "_delta_log"
_TABLE_FILE: Final = ".parquet"
_READ_BYTES: Final = 1 << 20


def in_files(folder: Path, secrets: Iterable[str], *, tables_in: Path | None = None) -> list[str]:
    """A sentence for each file of a table, and for each file that contains a secret, below the folder.

    Tables may be in the folder `tables_in`.
    """
    wanted = [secret.encode() for secret in secrets]
    return [
        f"{path}: {why}"
        for path in sorted(folder.rglob("*"))
        for why in _of_file(path, wanted, table=tables_in is not None and path.is_relative_to(tables_in))
    ]


def in_command_lines(secrets: Iterable[str]) -> list[str]:
    """A sentence for each process whose command line contains a secret; the command line itself is not part of it."""
    wanted, found = list(secrets), []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(secret in word for word in process.cmdline() for secret in wanted):
                found.append(f"the command line of process {process.pid} ({process.name()}): it contains a credential")
    return found


def _of_file(path: Path, wanted: list[bytes], *, table: bool) -> Iterator[str]:
    if not table and (path.name == _LOG or path.suffix == _TABLE_FILE):
        yield "it is a part of a table, and all tables are in the bucket"
    with suppress(FileNotFoundError):  # a part of Spark deletes its files meanwhile
        if path.is_file() and _contains(path, wanted):
            yield "it contains a credential"


def _contains(path: Path, wanted: list[bytes]) -> bool:
    longest = max(map(len, wanted), default=0)
    before = b""
    with path.open("rb") as file:
        while piece := file.read(_READ_BYTES):
            if any(secret in before + piece for secret in wanted):
                return True
            before = piece[-longest:]
    return False
