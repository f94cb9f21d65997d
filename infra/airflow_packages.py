"""Airflow's packages: an environment of their own beside the platform's, made from infra/airflow.lock when it is first asked for.

Airflow holds back packages that the platform needs newer, and most who use the platform do without it.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from infra.jars import ROOT
from views.errors import TandemError

FOLDER: Final = ROOT / ".venv-airflow"
LOCK: Final = ROOT / "infra" / "airflow.lock"


class NotInstalled(TandemError):
    """Airflow's packages are not there, or could not be installed."""


def command() -> Path:
    """The `airflow` of this checkout."""
    return FOLDER / "bin" / "airflow"


def installed() -> bool:
    """Whether the environment is what the lock says."""
    try:
        return (FOLDER / "ready").read_text("ascii") == stamp()
    except OSError:
        return False


def provide(say: Callable[[str], None], *, environ: Mapping[str, str]) -> None:
    """Install what the lock says, unless that is there; needs no network then.

    One at a time: who comes second waits, then finds the work done. What was interrupted is gone on with. Raises NotInstalled.
    """
    if installed():
        return
    FOLDER.parent.joinpath(".tandem").mkdir(exist_ok=True)
    with FOLDER.parent.joinpath(".tandem", "set-up-airflow.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if installed():
            return
        say("installing Airflow into .venv-airflow, once")
        _install(environ)
        new = FOLDER / "ready.new"
        new.write_text(stamp(), "ascii")
        new.replace(FOLDER / "ready")
        say("Airflow is installed")


def stamp() -> str:
    """What the lock is known by."""
    return hashlib.sha256(LOCK.read_bytes()).hexdigest()


def _install(environ: Mapping[str, str]) -> None:
    """As infra/set-up does it: by uv where it is found, else by pip, every file checked against the lock's hash."""
    python = FOLDER / "bin" / "python"
    options = ["--quiet", "--require-hashes", "-r", str(LOCK)]
    if uv := shutil.which("uv", path=environ.get("PATH", os.defpath)):
        make = [uv, "venv", "--quiet", "--python", sys.executable, str(FOLDER)]
        install = [uv, "pip", "install", "--python", str(python), *options]
    else:
        make = [sys.executable, "-m", "venv", str(FOLDER)]
        install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *options]
    if not _works([str(python), "--version"], environ) or (not uv and not _works([*install[:3], "--version"], environ)):
        shutil.rmtree(FOLDER, ignore_errors=True)
        _run(make, environ)
    _run(install, environ)


def _works(words: list[str], environ: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own environment's Python
            words, check=False, capture_output=True, env=_clean(environ), stdin=subprocess.DEVNULL
        )
    except OSError:
        return False
    return not done.returncode


def _run(words: list[str], environ: Mapping[str, str]) -> None:
    done = subprocess.run(  # noqa: S603 - the package client
        words, check=False, stdout=sys.stderr, env=_clean(environ), stdin=subprocess.DEVNULL
    )
    if done.returncode:
        raise NotInstalled("Airflow could not be installed; the lines above say why")


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """Without what points Python at the platform's own packages."""
    return {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV")}
