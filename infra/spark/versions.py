"""What executors of a cluster run, compared with what the driver runs: by a session's first tasks, and before each later one.

An executor imports this module before anything is known of its packages, so it needs the standard library alone.
"""

import base64
import json
import os
import platform
import socket
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from typing import Final, TypeVar

from tandem import infra

COMPUTING: Final = (
    *("pyspark", "pyarrow", "numpy", "duckdb", "datasketches", "msgspec"),
    *("deltalake", "obstore", "fastavro", "protobuf", "tzdata", "pytz", "confluent-kafka"),
)
"""The packages that tasks import: those that compute numbers, read and write tables, and decode records."""

DRIVER: Final = "TANDEM_DRIVER"
"""The environment variable in which executors of a cluster find the driver's report."""

Result = TypeVar("Result")


class DifferentExecutor(Exception):
    """This executor would compute with something else than the driver; the text names each difference."""


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


def described(sent: str) -> str:
    """The value of DRIVER: this process's report, and the archive `sent` from which executors should import Tandem."""
    text = json.dumps({"report": asdict(report()), "sent": sent})
    return base64.b64encode(text.encode()).decode("ascii")  # YARN writes variables into a script of its shell


def compared(task: Callable[..., Result]) -> Callable[..., Result]:
    """A function that compares its process with the driver before it calls `task`: an executor may come after the first task.

    It raises DifferentExecutor. Spark then repeats the task, on another executor if it can.
    """
    return partial(_compared, task)


def _compared(task: Callable[..., Result], *arguments: object) -> Result:
    compare()
    return task(*arguments)


def compare() -> None:
    """Compare this process with the driver, if the driver has described itself. Raises DifferentExecutor."""
    if found := _found(os.environ.get(DRIVER)):
        raise DifferentExecutor(f"{found}: install there what the driver has")


@cache
def _found(driver: str | None) -> str:
    if driver is None:
        return ""
    known = json.loads(base64.b64decode(driver))
    return "; ".join(differences(Report(**known["report"]), [report()], known["sent"]))


def differences(here: Report, there: Iterable[Report], sent: str) -> list[str]:
    """A sentence for each difference, without repetition: `there` are executors, which should import Tandem from the file `sent`.

    The last number of Python's version may differ: pickles and results are the same.
    """
    return list(dict.fromkeys(one for other in there for one in _between(here, other, sent)))


def _between(here: Report, there: Report, sent: str) -> Iterable[str]:
    where = f"the executor on {there.host} ({there.python})"
    if _minor(here.version) != _minor(there.version):
        yield f"{where} runs Python {there.version}, and the driver {here.version}"
    for name, version in here.packages.items():
        if (other := there.packages.get(name)) != version:
            yield f"{where} has {name} {other or 'not installed'}, and the driver {version or 'does not have it'}"
    if there.tandem != sent:
        yield f"{where} imports Tandem from {there.tandem}, and not the copy that the driver sent"


def _minor(version: str) -> list[str]:
    return version.split(".")[:2]


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _copy() -> str:
    """The name of the archive from which this process imports Tandem, or the folder."""
    root = Path(infra.__file__).parent.parent.parent
    return root.name if root.suffix == ".zip" else str(root)
