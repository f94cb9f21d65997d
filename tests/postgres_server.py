"""A real PostgreSQL for tests, in a temporary folder, reached through a socket in it."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

OLDEST: Final = 15
_PLACES: Final = ":".join(
    [os.environ.get("PATH", ""), *map(str, sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True))]
)


@dataclass
class PostgresServer:
    """A server that runs; `dsn` reaches it as its superuser. With a `port` it also listens on 127.0.0.1."""

    folder: Path
    programs: Path
    options: dict[str, Any]
    port: int = 0

    @property
    def dsn(self) -> str:
        port = f" port={self.port}" if self.port else ""
        return f"host={self.folder} user=tandem dbname=postgres{port}"

    def start(self) -> None:
        """Start and wait until it answers."""
        address = f"-c listen_addresses=127.0.0.1 -p {self.port}" if self.port else "-c listen_addresses=''"
        settings = f"{address} -c unix_socket_directories={self.folder} -c fsync=off"
        self._control("start", "-o", settings, "-l", str(self.folder / "log"))

    def stop(self, mode: str = "fast") -> None:
        """Stop: `fast` ends sessions, `immediate` is as a crash."""
        self._control("stop", "-m", mode)

    def kill(self) -> None:
        """Kill the server's first process and wait for the end of its children; its data stay as a crash leaves them."""
        number = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        os.kill(number, signal.SIGQUIT)
        self._control("stop", "-m", "immediate", check=False)

    def _control(self, *words: str, check: bool = True) -> None:
        command = [str(self.programs / "pg_ctl"), "-D", str(self.folder / "data"), "-w", *words]
        subprocess.run(command, check=check, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **self.options)


@contextmanager
def postgres_server(folder: Path, *, port: int = 0) -> Iterator[PostgresServer]:
    """Start a server in an empty folder and stop it; skips the test where no PostgreSQL of `OLDEST` or newer is installed."""
    if (program := shutil.which("initdb", path=_PLACES)) is None:
        pytest.skip("PostgreSQL's programs are not installed here")
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.split()[2]
    if int(version.partition(".")[0]) < OLDEST:
        pytest.skip(f"PostgreSQL is {version} here; a sink needs {OLDEST}")
    # PostgreSQL refuses to run as root.
    options: dict[str, Any] = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
    folder.mkdir()
    if options:
        shutil.chown(folder, **options)
    server = PostgresServer(folder, Path(program).parent, options, port)
    words = ["-A", "trust", "-U", "tandem", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync"]
    initdb = [program, "-D", str(folder / "data"), *words]
    subprocess.run(initdb, check=True, cwd="/", stdout=subprocess.DEVNULL, **options)
    server.start()
    try:
        yield server
    finally:
        server.stop("immediate")


@contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder of a short path, as a socket needs, which the server's user can reach."""
    with tempfile.TemporaryDirectory(prefix="pg-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
