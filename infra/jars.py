"""The pinned jars: what infra/jars.lock lists, in `.tandem/jars` of this checkout, where set-up puts them.

A line of the lock is `SHA-256  group/name-revision.jar`. The group `spark` holds what Spark needs beyond the jars in its own
package, `broker` all of Kafka's server.
"""

import hashlib
from pathlib import Path
from typing import Literal

from views.errors import TandemError

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "infra" / "jars.lock"
FOLDER = ROOT / ".tandem" / "jars"
Group = Literal["spark", "broker"]


class MissingJar(TandemError):
    """A pinned jar is not there."""


def pinned(lock: Path = LOCK) -> dict[str, str]:
    """The SHA-256 of every pinned jar by its path below the jars' folder, in the lock's order."""
    rows = (line.split() for line in lock.read_text("ascii").splitlines())
    return {path: sha256 for sha256, path in rows}


def paths(group: Group, folder: Path = FOLDER) -> tuple[Path, ...]:
    """The files of a group, all of which exist; raises MissingJar otherwise."""
    found = tuple(folder / path for path in pinned() if path.startswith(f"{group}/"))
    for path in found:
        if not path.exists():
            raise MissingJar(f"the jar {path} is missing; run ./tandem to fetch it")
    return found


def differing(folder: Path = FOLDER) -> tuple[str, ...]:
    """The pinned jars that are missing or whose bytes are not those that were pinned."""
    return tuple(path for path, sha256 in pinned().items() if _sha256(folder / path) != sha256)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
