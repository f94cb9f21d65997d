"""Where secrets can be read by those who shall not: command lines, which every user reads, and files that are not for secrets."""

import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

_MEANT = frozenset({"password", "java.properties", "librdkafka.properties", "server.properties"})
"""The files of the state folder that hold the broker's login."""


def commands(secrets: Iterable[str], *, what: str = "cmdline") -> list[str]:
    """The processes of this machine, with their command, or with their environment, that show one of the secrets."""
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{what}"):
        with suppress(OSError):
            text = path.read_bytes().decode("utf-8", "replace")
            if any(secret in text for secret in secrets):
                found.append(f"{path}: {text[:200]}")
    return found


def files(secrets: Iterable[str], state: Path) -> list[str]:
    """The files of a state folder that hold one of the secrets and are not meant to, or that others may read though they are."""
    wanted, found = [secret.encode() for secret in secrets], []
    for path in state.rglob("*"):
        with suppress(FileNotFoundError):
            if not path.is_file() or not any(secret in path.read_bytes() for secret in wanted):
                continue
            meant = path.parent.name == "broker" and path.name in _MEANT
            if not meant or stat.S_IMODE(path.stat().st_mode) != 0o600:
                found.append(str(path))
    return found
