"""Environments of packages besides the platform's own, each built from a hashed lock at its first use."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tandem.infra.files import atomic_files, file_lock
from tandem.views.errors import TandemError


class NotInstalled(TandemError, code="packages-missing"):
    """The packages of an environment are missing and could not be installed."""


@dataclass(frozen=True)
class Environment:
    """The name of the packages (for messages), their folder, and their lock."""

    name: str
    folder: Path
    lock: Path

    def command(self, name: str) -> Path:
        """The path of one of its programs."""
        return self.folder / "bin" / name

    def stamp(self) -> str:
        """The hash of the lock."""
        return hashlib.sha256(self.lock.read_bytes()).hexdigest()

    def installed(self) -> bool:
        """Whether the environment has the packages of the lock."""
        try:
            return (self.folder / "ready").read_text("ascii") == self.stamp()
        except OSError:
            return False

    def provide(self, say: Callable[[str], None], *, environ: Mapping[str, str]) -> None:
        """Install the packages of the lock. If they are installed already, this needs no network.

        One process at a time: others wait, then find the work done. An interrupted installation is resumed. Raises NotInstalled.
        """
        if self.installed():
            return
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with file_lock.held(self.folder.with_name(f"{self.folder.name}.lock")):
            if self.installed():
                return
            say(f"installing {self.name} into {self.folder.name}, once")
            self._install(environ)
            atomic_files.replace(self.folder / "ready", self.stamp().encode("ascii"))
            say(f"{self.name} is installed")

    def _install(self, environ: Mapping[str, str]) -> None:
        """Install as infra/set-up does: by uv if it is found, else by pip, with every file checked against the lock's hash."""
        python = self.command("python")
        options = ["--quiet", "--require-hashes", "-r", str(self.lock)]
        if uv := shutil.which("uv", path=environ.get("PATH", os.defpath)):
            make = [uv, "venv", "--quiet", "--python", sys.executable, str(self.folder)]
            install = [uv, "pip", "install", "--python", str(python), *options]
        else:
            make = [sys.executable, "-m", "venv", str(self.folder)]
            install = [str(python), "-m", "pip", "install", "--disable-pip-version-check", "--no-input", *options]
        if not _works([str(python), "--version"], environ) or (not uv and not _works([*install[:3], "--version"], environ)):
            shutil.rmtree(self.folder, ignore_errors=True)
            self._run(make, environ)
        self._run(install, environ)

    def _run(self, words: list[str], environ: Mapping[str, str]) -> None:
        done = subprocess.run(  # noqa: S603 - the package client
            words, check=False, stdout=sys.stderr, env=_clean(environ), stdin=subprocess.DEVNULL
        )
        if done.returncode:
            raise NotInstalled(f"{self.name} could not be installed; the lines above give the reason")


def _works(words: list[str], environ: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - our own environment's Python
            words, check=False, capture_output=True, env=_clean(environ), stdin=subprocess.DEVNULL
        )
    except OSError:
        return False
    return not done.returncode


def _clean(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables that point Python at the platform's own packages."""
    return {name: value for name, value in environ.items() if name not in ("PYTHONPATH", "PYTHONSAFEPATH", "VIRTUAL_ENV")}
