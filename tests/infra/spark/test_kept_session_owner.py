"""The owner of a kept session, with a stand-in for its JVM that answers or raises at once."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from infra.java import java_home
from infra.settings import Session, Settings
from infra.spark.kept import marks, messages
from infra.spark.kept.messages import Lines, Reply, Request
from infra.spark.kept.owner import SessionOwner
from infra.spark.properties import properties
from views.errors import TandemError

SECONDS = 30


@dataclass
class Java:
    """A JVM that has no Spark."""

    gateway: tuple[int, str] = (1, "secret")
    ended: bool = False
    refuses: str = ""

    def probe(self) -> None:
        """Answer."""

    def clear(self, following: int) -> None:
        """Have nothing to end."""

    def try_lock(self, path: Path) -> bool:
        if self.refuses:
            raise TandemError(self.refuses)
        return path.name == "free"

    def end(self) -> None:
        self.ended = True


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(state=str(tmp_path), session=Session(idle_s=600))


@contextmanager
def owning(settings: Settings, start: Callable[[Settings], Java], caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An owner that serves in a thread."""
    caplog.set_level(logging.INFO)
    stop, log = threading.Event(), logging.getLogger("session")
    owner = SessionOwner(lambda: settings, os.environ, start, log.info, log.warning)
    thread = threading.Thread(target=owner.serve, args=(stop,))
    thread.start()
    try:
        while messages.ping(settings.folder, SECONDS) is None:
            assert thread.is_alive()
        yield
    finally:
        stop.set()
        thread.join(SECONDS)
        assert not thread.is_alive()


def ask(settings: Settings) -> Lines:
    """A command that wants the session."""
    client = messages.connect(settings.folder, SECONDS)
    own = marks.marks(settings, java_home.find(os.environ).home, properties(settings, os.environ), os.environ)
    client.send(Request("session", "tandem recompute", 7, dict(own)))
    return client


def test_an_owner_whose_session_nobody_uses_holds_no_memory_of_pyspark() -> None:
    says = "import sys, cli.run.session; print({name.partition('.')[0] for name in sys.modules} & {'pyspark', 'py4j'})"
    assert subprocess.run([sys.executable, "-c", says], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_a_waiting_command_is_told_why_the_session_has_ended(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    def start(_: Settings) -> Java:
        raise TandemError("no Java")

    with owning(settings, start, caplog):
        client = ask(settings)
        assert client.reply(SECONDS) == Reply("wait")
        assert client.reply(SECONDS) == Reply("refused", "has ended: Spark failed: no Java")
    assert [(one.levelname, one.message) for one in caplog.records][-1] == ("WARNING", "the session ends: Spark failed: no Java")


def test_a_client_that_sends_half_a_request_holds_nobody_up(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    with owning(settings, lambda _: Java(), caplog):
        slow = messages.connect(settings.folder, SECONDS)
        slow.socket.sendall(b'{"want":')
        assert messages.ping(settings.folder, SECONDS) == Reply("alive")
        slow.socket.sendall(b'"ping"}\n')
        assert slow.reply(SECONDS) == Reply("alive")


def test_a_lock_is_given_held_or_refused_with_its_reason(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    java = Java()
    with owning(settings, lambda _: java, caplog):
        client = ask(settings)
        assert [client.reply(SECONDS).answer for _ in range(2)] == ["wait", "yours"]
        for name, answer in (("free", "locked"), ("other", "held")):
            client.send(Request("lock", path=f"/{name}"))
            assert client.reply(SECONDS) == Reply(answer)  # type: ignore[arg-type]
        java.refuses = "cannot use the lock /free: denied"
        client.send(Request("lock", path="/free"))
        assert client.reply(SECONDS) == Reply("refused", java.refuses)
        java.refuses = ""
        client.send(Request("lock", path="/free"))
        assert client.reply(SECONDS) == Reply("locked")
    assert java.ended


def test_a_command_of_another_environment_is_refused(settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    with owning(settings, lambda _: Java(), caplog):
        client = messages.connect(settings.folder, SECONDS)
        client.send(Request("session", "tandem recompute", 7, {}))
        assert client.reply(SECONDS).why.startswith("has another value of ")
