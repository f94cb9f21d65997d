"""An installed copy of the wheel, and another user who runs it: the code read-only, the home empty."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tandem.infra.folders import ROOT
from tests.stack import PYTHONPATH, environ

NOBODY = 65534
# By a shell: what setpriv itself starts may still have root's capabilities, and reach what the user may not.
_OTHER = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--", "sh", "-c", 'exec "$@"', "sh")
_OWN_SITE = Path(sysconfig.get_path("purelib"))


@dataclass(frozen=True)
class Copy:
    """A virtual environment with the wheel, whose files only their owner may change, and a home for whoever uses it."""

    folder: Path
    home: Path
    user: tuple[str, ...]
    environ: dict[str, str]

    @property
    def site(self) -> Path:
        """Where the wheel's files are."""
        (found,) = self.folder.glob("lib/python*/site-packages")
        return found

    def run(self, *arguments: str, code: int = 0, seconds: float = 300) -> str:
        """The standard output of a command of the environment, run as the other user in the home."""
        command = [*self.user, str(self.folder / "bin" / arguments[0]), *arguments[1:]]
        done = subprocess.run(
            command, cwd=self.home, env=self.environ, capture_output=True, text=True, check=False, timeout=seconds
        )
        assert done.returncode == code, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def files(self) -> dict[str, int]:
        """Every file of the wheel's folder and of the packages beside it, with the time of its last change."""
        return {str(path): path.lstat().st_mtime_ns for path in self.site.rglob("*")}


def build(out: Path) -> Path:
    """The wheel of this checkout."""
    command = [sys.executable, "-m", "tandem.cli", "package", "--out", str(out)]
    done = subprocess.run(
        command, env={**environ(), "PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=False, timeout=300
    )
    if "could not be installed" in done.stderr:
        pytest.skip("the build backend is not there, and cannot be fetched")
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


def installed(wheel: Path | None, folder: Path, *, cache: Path | None) -> Copy:
    """Install the wheel into a new environment, beside the packages of this one; without a wheel this checkout and all it needs.

    `folder` must be one that others may enter. Without a `cache` the jars are fetched into the home.
    """
    user, python = _other_user()
    venv, home = folder / "venv", folder / "home"
    home.mkdir(parents=True)
    subprocess.run([python, "-m", "venv", "--without-pip", venv], check=True)
    (site,) = venv.glob("lib/python*/site-packages")
    if wheel is not None:
        # The packages alone: what this environment has of scripts, and what is on the path of this process, is not there.
        (site / "packages.pth").write_text(f"{_readable(folder)}\n")
    _install(venv, [str(ROOT)] if wheel is None else ["--no-deps", "--no-index", str(wheel)])
    for path in [site, *site.rglob("*")]:
        path.chmod(path.lstat().st_mode & ~0o222 | 0o444 if not path.is_symlink() else 0o777)
    if user:
        os.chown(home, NOBODY, NOBODY)
    variables = {"HOME": str(home), "PATH": f"{venv / 'bin'}:{os.environ.get('PATH', os.defpath)}", "LC_ALL": "C.UTF-8"}
    if "JAVA_HOME" in os.environ:
        variables["JAVA_HOME"] = os.environ["JAVA_HOME"]
    variables |= {name: value for name, value in os.environ.items() if name.lower().endswith("_proxy")}
    return Copy(venv, home, user, {**variables, **({"TANDEM_CACHE": str(cache)} if cache else {})})


def tool_installed(folder: Path) -> Copy:
    """`uv tool install` of this checkout into an empty home, with all that it needs; uv is fetched where it is not there."""
    home = folder / "home"
    home.mkdir(parents=True)
    variables = {name: value for name, value in environ().items() if name != "PYTHONPATH" and not name.startswith("UV_")}
    variables |= {"HOME": str(home), "UV_CACHE_DIR": str(folder / "cache")}
    python = Path(sys.base_prefix) / "bin" / "python3"
    command = [_uv(folder), "tool", "install", "--quiet", "--no-config", "--python", str(python), str(ROOT)]
    subprocess.run(command, env=variables, check=True, timeout=1200)
    return Copy(home / ".local", home, (), variables)


def _uv(folder: Path) -> str:
    if found := shutil.which("uv"):
        return found
    venv = folder / "uv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    fetch = [str(venv / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "uv"]
    if subprocess.run(fetch, check=False, timeout=300).returncode:
        pytest.skip("uv is not there, and cannot be fetched")
    return str(venv / "bin" / "uv")


def _install(venv: Path, arguments: Sequence[str]) -> None:
    if uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--quiet", "--python", str(venv / "bin" / "python")]
    else:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", str(venv / "bin" / "python")]
        command = [*pip, "install", "--no-input"]
    subprocess.run([*command, *arguments], check=True, timeout=1200)


def _other_user() -> tuple[tuple[str, ...], str]:
    """How to become another user, and a Python of this version that he may run; nobody else where this user is not root."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    own = str(Path(sys.base_prefix) / "bin" / version)
    if os.geteuid() != 0:
        return (), own
    if not shutil.which("setpriv"):
        pytest.skip("root writes everywhere, and there is no `setpriv` to become another user")
    for python in (own, *(f"{folder}/{version}" for folder in ("/usr/local/bin", "/usr/bin"))):
        command = [*_OTHER, python, "-c", "import venv"]
        if Path(python).exists() and subprocess.run(command, capture_output=True, check=False, cwd="/").returncode == 0:
            return _OTHER, python
    return pytest.skip(f"another user than root may run no {version} here")


def _readable(folder: Path) -> Path:
    """The packages of this environment, where another user may read them: as they are, else linked."""
    may = [*_OTHER, "test", "-r", str(_OWN_SITE / "pyspark" / "__init__.py")]
    if os.geteuid() != 0 or subprocess.run(may, check=False, cwd="/").returncode == 0:
        return _OWN_SITE
    linked = folder / "packages"
    shutil.copytree(_OWN_SITE, linked, copy_function=os.link, symlinks=True)
    return linked
