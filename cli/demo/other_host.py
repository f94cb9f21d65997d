"""Run a program as on another host: it sees no checkout, project, home or state folder, but a Python, a Java and its own folder.

It has a mount namespace in which these folders are covered, an empty environment, the current folder `/`, and another user if the
caller is root. Where the machine allows less, as much as it allows.
"""

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from tandem.infra import folders

Apart = Literal["mount namespace and user", "mount namespace", "environment"]

FOLDER: Final = Path("/tmp/own")  # noqa: S108 - in a namespace whose /tmp is empty
"""The program's own folder, as it sees it."""
_USER: Final = "nobody"
_PROBE_S: Final = 60
# $1: the folders to cover, $2: `from:to` for each folder that stays, both with a line each; then the program. Folders that stay
# are bound to /mnt first, because what covers them hides them.
_SCRIPT: Final = """\
set -e
cover=$1 stay=$2; shift 2
mount -t tmpfs -o mode=0755 own /mnt
n=0; printf '%s\\n' "$stay" | while IFS=: read -r from to; do n=$((n+1)); mkdir "/mnt/$n"; mount --bind "$from" "/mnt/$n"; done
printf '%s\\n' "$cover" | while read -r folder; do mount -t tmpfs -o mode=0755 own "$folder"; done
chmod 1777 /tmp
n=0; printf '%s\\n' "$stay" | while IFS=: read -r from to; do n=$((n+1)); mkdir -p "$to"; mount --bind "/mnt/$n" "$to"; done
cd /
exec "$@"
"""


@dataclass(frozen=True)
class OtherHost:
    """How far programs can be set apart here: the words before each, and what they achieve."""

    apart: Apart
    words: Sequence[str]
    user: int | None = None

    def command(self, words: Sequence[str], own: Path, hidden: Iterable[Path], needed: Iterable[Path]) -> list[str]:
        """The command that runs the words; `own` becomes FOLDER, `hidden` are covered, and `needed` stay within these."""
        if self.apart == "environment":
            return [*words]
        covered = _outermost([Path("/tmp"), *hidden])  # noqa: S108 - it is covered
        stay = {path: path.resolve() for path in needed if any(path.is_relative_to(folder) for folder in covered)}
        lines = "\n".join(f"{source}:{path}" for path, source in {**stay, FOLDER: own.resolve()}.items())
        drop = [] if self.user is None else _as_user(self.user)
        return [*self.words, "sh", "-c", _SCRIPT, "sh", "\n".join(map(str, covered)), lines, *drop, *words]

    def folder(self, own: Path) -> Path:
        """Where a program sees its own folder; makes the folder, and lets the program's user write there."""
        own.mkdir(parents=True, exist_ok=True)
        if self.user is not None:
            os.chown(own, self.user, -1)
        return own if self.apart == "environment" else FOLDER


def find(environ: Mapping[str, str], own: Path, hidden: Sequence[Path], needed: Sequence[Path]) -> OtherHost:
    """The most that this machine allows: each way is tried with a Python that imports what a worker of Spark needs."""
    for host in _ways():
        folder = host.folder(own)
        probe = f"import pyspark, pathlib; pathlib.Path({str(folder / 'probe')!r}).touch()"
        command = host.command([sys.executable, "-I", "-c", probe], own, hidden, needed)
        try:
            done = subprocess.run(  # noqa: S603 - our own command
                command, env=dict(environ), cwd="/", capture_output=True, check=False, timeout=_PROBE_S, stdin=subprocess.DEVNULL
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        finally:
            (own / "probe").unlink(missing_ok=True)
        if done.returncode == 0:
            return host
    return OtherHost("environment", ())


def hidden(project: Path, state: Path, environ: Mapping[str, str]) -> list[Path]:
    """The folders of this host that another one would not have."""
    homes = [Path("/root"), Path("/home"), Path(environ.get("HOME") or Path.home())]
    found = [project, state, *([folders.ROOT] if folders.CHECKOUT else []), *homes]
    return [path for path in found if path.is_dir() and path != Path("/")]


def python_folders() -> list[Path]:
    """What the Python of this process consists of."""
    return [Path(sys.prefix), Path(sys.base_prefix)]


def _ways() -> Iterable[OtherHost]:
    if not sys.platform.startswith("linux") or shutil.which("unshare") is None:
        return
    if os.geteuid() == 0:
        alone = ("unshare", "--mount", "--propagation", "private")
        if shutil.which("setpriv") and (user := _user()) is not None:
            yield OtherHost("mount namespace and user", alone, user)
        yield OtherHost("mount namespace", alone)
    else:
        yield OtherHost("mount namespace", ("unshare", "--mount", "--map-root-user", "--propagation", "private"))


def _as_user(user: int) -> list[str]:
    # A change of user clears the signal that a parent's death sends.
    return ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwuid(user).pw_gid}", "--clear-groups", "--pdeathsig=KILL"]


def _user() -> int | None:
    try:
        return pwd.getpwnam(_USER).pw_uid
    except KeyError:
        return None


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that lie in no other one."""
    every = {path.resolve() for path in paths} | {path.absolute() for path in paths}
    return sorted(path for path in every if not any(path != other and path.is_relative_to(other) for other in every))
