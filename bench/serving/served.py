"""`tandem serve` as a process of its own, a client that keeps its connection, and a process that commits meanwhile."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

from tandem.bench.commands import environ
from tandem.bench.process_tree import stop
from tandem.infra.settings import ServingSettings
from tandem.views.errors import TandemError

POLL_S: Final = ServingSettings().poll_ms / 1000
"""Between two looks of the server, as it is by default."""
Beside: TypeAlias = AbstractContextManager["subprocess.Popen[bytes]"]
"""A process for as long as a context lasts; what it says of errors is in a file of its name in the folder."""
_PATIENCE_S: Final = 600
"""For the first question to a view, which is read into memory for it."""
_UNBOUNDED: Final = {
    "RATE": 1_000_000,
    "BURST": 1_000_000,
    "MEMORY_MB": 8192,
    "TIMEOUT_S": _PATIENCE_S,
    "POLL_MS": round(POLL_S * 1000),
}


@dataclass
class BenchClient:
    """One connection that is kept, for one thread at a time.

    With `retry` what broke is asked once more: a server ends connections on which nothing has been asked for seconds.
    """

    address: str
    secret: str = field(repr=False)
    retry: bool = True
    accept: str = "*/*"

    def __post_init__(self) -> None:
        self._connection = HTTPConnection(urlsplit(self.address).netloc, timeout=_PATIENCE_S)
        self._headers = {"Authorization": f"Bearer {self.secret}", "Content-Type": "application/json", "Accept": self.accept}

    def asked(self, path: str, body: object = None) -> tuple[int, bytes]:
        """Status and bytes of the answer: to a GET, or to a POST of a body."""
        content = None if body is None else json.dumps(body).encode()
        try:
            return self._sent(path, content)
        except ConnectionError:
            self._connection.close()
            if not self.retry:
                raise
            return self._sent(path, content)

    def _sent(self, path: str, content: bytes | None) -> tuple[int, bytes]:
        self._connection.request("GET" if content is None else "POST", path, content, self._headers)
        answer = self._connection.getresponse()
        return answer.status, answer.read()

    def ask(self, path: str, body: object = None) -> bytes:
        """The bytes of an answer. Raises TandemError for any but one."""
        status, content = self.asked(path, body)
        if status != 200:
            raise TandemError(f"{path} was answered with {status}: {content[:300]!r}")
        return content

    def document(self, path: str, body: object = None) -> Any:
        """The same, read."""
        return json.loads(self.ask(path, body))

    def another(self, *, retry: bool = True, accept: str = "*/*") -> Self:
        """One more connection."""
        return type(self)(self.address, self.secret, retry, accept)

    def close(self) -> None:
        """End the connection."""
        self._connection.close()


def tandem_serve(folder: Path) -> Sequence[str]:
    """The command of a server of a folder's project, without Python."""
    return ["-m", "tandem.cli", "serve", "--project", str(folder), "--port", "0", "--json"]


@contextmanager
def server(
    folder: Path, settings: Mapping[str, int] | None = None, *, command: Callable[[Path], Sequence[str]] = tandem_serve
) -> Iterator[tuple[int, BenchClient]]:
    """The process id of a server of the project in a folder, and a client of it with all rights. Raises TandemError."""
    chosen = {f"TANDEM_SERVING_{name}": str(value) for name, value in {**_UNBOUNDED, **(settings or {})}.items()}
    with (folder / "serve.err").open("ab") as errors:
        whole = [sys.executable, *command(folder)]
        process = subprocess.Popen(whole, stdout=subprocess.PIPE, stderr=errors, env=environ(chosen), start_new_session=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if not said:
            raise TandemError(f"the server did not start; {folder / 'serve.err'} says why")
        client = BenchClient(json.loads(said)["address"], (folder / ".tandem" / "access" / "first.token").read_text().strip())
        try:
            yield process.pid, client
        finally:
            client.close()
    finally:
        stop(process)


def ingesting(folder: Path, *arguments: object) -> Beside:
    """A process that commits; its arguments are those of `tandem.bench.serving.ingesting`, after the folder."""
    return _beside(folder, "ingesting", str(folder), *map(str, arguments), reads=subprocess.PIPE)


def watching(folder: Path, client: BenchClient, committing: "subprocess.Popen[bytes]") -> Beside:
    """A process that asks as the client does until each commit is counted; see tandem.bench.serving.watching."""
    return _beside(folder, "watching", client.address, reads=committing.stdout, secret=client.secret)


@contextmanager
def _beside(
    folder: Path, name: str, *arguments: str, reads: int | IO[bytes] | None, secret: str = ""
) -> Iterator["subprocess.Popen[bytes]"]:
    command = [sys.executable, "-m", f"tandem.bench.serving.{name}", *arguments]
    given = environ({"TANDEM_TOKEN": secret} if secret else {})
    with (folder / f"{name}.err").open("wb") as errors:
        process = subprocess.Popen(command, stdin=reads, stdout=subprocess.PIPE, stderr=errors, env=given, start_new_session=True)
    try:
        yield process
    finally:
        stop(process)
