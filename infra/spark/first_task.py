"""The first task of a session on a cluster: what its executors run, compared with this process.

An executor imports this module before anything is known of its packages, so it needs the standard library alone.
"""

import platform
import socket
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Final

import infra

COMPUTING: Final = (
    *("pyspark", "pyarrow", "numpy", "duckdb", "datasketches", "msgspec"),
    *("deltalake", "obstore", "fastavro", "protobuf", "tzdata", "pytz"),
)
"""The packages that tasks import: those that compute numbers, read and write tables, and decode records."""


@dataclass(frozen=True)
class Report:
    """A process: its host, Python (path and version), packages with versions, and the copy of Tandem that it imports."""

    host: str
    python: str
    version: str
    packages: Mapping[str, str | None]
    tandem: str


def report(_: object = None) -> Report:
    """The report of the process that calls it."""
    packages = {name: _version(name) for name in COMPUTING}
    return Report(socket.gethostname(), sys.executable, platform.python_version(), packages, _copy())


def differences(here: Report, there: Iterable[Report], sent: str) -> list[str]:
    """A sentence for each difference, without repetition: `there` are executors, which should import Tandem from the file `sent`.

    The last number of Python's version may differ: pickles and results are the same.
    """
    return list(dict.fromkeys(one for other in there for one in _between(here, other, sent)))


def _between(here: Report, there: Report, sent: str) -> Iterable[str]:
    where = f"the executor on {there.host} ({there.python})"
    if _minor(here.version) != _minor(there.version):
        yield f"{where} runs Python {there.version}, and this process {here.version}"
    for name, version in here.packages.items():
        if (other := there.packages.get(name)) != version:
            yield f"{where} has {name} {other or 'not installed'}, and this process {version or 'does not have it'}"
    if there.tandem != sent:
        yield f"{where} imports Tandem from {there.tandem}, and not the copy that this process sent"


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _copy() -> str:
    """The name of the archive from which this process imports Tandem, or the folder."""
    root = Path(infra.__file__).parent.parent
    return root.name if root.suffix == ".zip" else str(root)
