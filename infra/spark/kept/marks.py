"""What must be equal in a command and in a kept session, so that its tasks compute as they would in a session of the command.

A mark is a name and the digest of a value. Only digests leave a process, because properties and variables may be secrets.
"""

import hashlib
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from infra import folders
from infra.settings import Settings

CODE: Final = "the platform's code"
_PACKAGES: Final = ("batch", "infra", "ledger", "speed", "src", "views")
"""What tasks of a batch command import, as folders of infra.folders.ROOT."""
_SHOWN: Final = 2
# What no task reads: settings, which are compared where Spark has them; the folder, shell, terminal and desktop of the caller;
# Airflow's own, which a command gets from the task that runs it; programs, since Java is a mark of its own.
_NAMES: Final = frozenset(
    (
        *(
            "_",
            "COLUMNS",
            "DISPLAY",
            "EDITOR",
            "HISTFILE",
            "LESS",
            "LINES",
            "LS_COLORS",
            "MAIL",
            "OLDPWD",
            "PAGER",
            "PATH",
            "PS1",
        ),
        *("PWD", "PYTHONUNBUFFERED", "SHELL", "SHLVL", "STY", "VIRTUAL_ENV", "VIRTUAL_ENV_PROMPT", "WINDOWID"),
    )
)
_PREFIXES: Final = (
    *("AIRFLOW_", "_AIRFLOW_", "TANDEM_", "COLORTERM", "DBUS_", "GPG_", "LC_TERMINAL", "SESSION_", "SSH_", "TERM", "TMUX"),
    *("VSCODE_", "WAYLAND_", "WT_", "XDG_"),
)

Marks = Mapping[str, str]
"""Digests by the name of what they are of."""


def marks(settings: Settings, java: Path, properties: Mapping[str, str], environ: Mapping[str, str]) -> Marks:
    """The marks of a process that would start Spark with this Java, these properties and this environment."""
    values = {
        "Python": f"{sys.executable} {sys.version}",
        "Java": str(java),
        "spark.master": settings.spark.master,
        CODE: code(),
        "the Python packages": _stamps(Path(folder) for folder in sys.path if folder.endswith("-packages")),
        **{f"the Spark property {name}": value for name, value in properties.items()},
        **{f"the environment variable {name}": value for name, value in _environment(environ)},
    }
    return {name: digest(value) for name, value in values.items()}


def code() -> str:
    """A text that changes when a file of the platform's code does: names, sizes and times of change."""
    files = (file for package in _PACKAGES for file in (folders.ROOT / package).rglob("*.py"))
    return _stamps(sorted(files))


def differences(one: Marks, other: Marks) -> str:
    """The names of the marks that differ, the first few of them; empty if all are equal."""
    found = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    return ", ".join(found[:_SHOWN]) + (f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else "")


def digest(text: str) -> str:
    """The digest of a value."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _stamps(paths: Iterator[Path] | list[Path]) -> str:
    return "\n".join(filter(None, map(_stamp, paths)))


def _stamp(path: Path) -> str:
    """Empty for a file that has gone meanwhile, and for a link to nothing, such as the lock of an editor: no task imports it."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in folders.child_environment(environ).items():
        if name == "PYTHONPATH":
            # The folder from which the platform's DAGs import: no task does.
            kept = [folder for folder in value.split(os.pathsep) if folder != str(folders.DAGS)]
            yield name, os.pathsep.join(kept)
        elif name not in _NAMES and not name.startswith(_PREFIXES):
            yield name, value
