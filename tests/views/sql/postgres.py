"""A real PostgreSQL server for one module of tests, if this machine has the binaries of one (Debian's package `postgresql`)."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tandem.views.sql.dialect_difference import ERROR, NONE

_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
needs_postgres = pytest.mark.skipif(not _BINARIES, reason="no PostgreSQL server is installed: Debian's package is `postgresql`")
_NONE = ("42883", "42704")
"""SQL states: the function or the operator, or the type, does not exist."""


@dataclass(frozen=True)
class Postgres:
    """A server in a folder, which listens on a socket there."""

    folder: Path
    binaries: Path

    @property
    def version(self) -> str:
        """The major version."""
        return self.binaries.parent.name

    def value(self, sql: str) -> str:
        """The text of the expression's value."""
        statement = f"\\set VERBOSITY verbose\nSELECT CAST(({sql}) AS TEXT);"
        words = ["psql", "-h", str(self.folder), "-U", "postgres", "-AtX", "-v", "ON_ERROR_STOP=1", "-P", "null=NULL", "-f", "-"]
        done = subprocess.run(words, input=statement, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.removesuffix("\n")
        return NONE if any(f"ERROR:  {state}:" in done.stderr for state in _NONE) else ERROR


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """A new server. It does not run as root, so root starts it as the user of the package."""
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.getuid() == 0 else []
    # Not in pytest's folder, which other users may not enter; and the path of a socket has at most 107 bytes.
    made = subprocess.run([*as_user, "mktemp", "-d", "/tmp/postgres-XXXXXX"], capture_output=True, text=True, check=True)
    server = Postgres(Path(made.stdout.strip()), _BINARIES[-1])
    data, quiet = str(server.folder / "data"), subprocess.DEVNULL
    environ = {**os.environ, "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    try:
        initialise = [*as_user, str(server.binaries / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8"]
        subprocess.run(initialise, check=True, stdout=quiet, env=environ, cwd="/")
        options = f"-k {server.folder} -c listen_addresses= -c timezone=UTC"
        start = [
            *as_user,
            str(server.binaries / "pg_ctl"),
            "-D",
            data,
            "-w",
            "-o",
            options,
            "-l",
            str(server.folder / "log"),
            "start",
        ]
        subprocess.run(start, check=True, stdout=quiet, env=environ, cwd="/")
        yield server
    finally:
        stop = [*as_user, str(server.binaries / "pg_ctl"), "-D", data, "-m", "immediate", "stop"]
        subprocess.run(stop, check=False, stdout=quiet, stderr=quiet, cwd="/")
        shutil.rmtree(server.folder, ignore_errors=True)
