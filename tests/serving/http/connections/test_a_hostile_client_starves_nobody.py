"""Whatever one process does to a server, another one with another token, at another address, is answered within six seconds."""

import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tandem.serving.access import tokens
from tandem.serving.access.rights import Rights
from tandem.serving.http.listener import Tls
from tests.serving.http.certificate import signed_by_itself
from tests.serving.http.connections import attacker, victim
from tests.serving.world import World, forty_hits
from tests.stack import PYTHONPATH, environ

ME = ("/me",)
ROW = ("/views/per_page/row?key.page=/00&window=2026-11-01T12:00",)
ONE = ("/sql", '{"statement": "SELECT 1 AS n"}')
NO_EVENT = ("/sources/hits/events", "{")
"""It is refused once a thread has decoded it, without a broker."""
OF = {
    "flood": ROW,
    "large_bodies": ROW,
    "slow_events": NO_EVENT,
    "statements": ONE,
    "streams": ROW,
    "unread": ONE,
}
"""What the victim asks, where that is not who it is."""
OVER_TLS = ("bodies", "handshakes", "churn", "unread", "noise")

BOUNDS = {"CONNECTIONS": 500, "CONNECTIONS_PER_ADDRESS": 100}
"""Fewer connections than by default, so that fewer are too many."""


@dataclass(frozen=True)
class Attacked:
    address: str
    hostile: str
    honest: str

    def asked(self, expected: str, *question: str, source: str = "127.0.0.2") -> list[tuple[int, float]]:
        """What came of a hundred requests of an honest client, which stops early where others than `expected` come."""
        found = _run(victim, self.address, self.honest, source, expected, *question)
        with found as process:
            out, _ = process.communicate(timeout=300)
        return [(status, seconds) for status, seconds in json.loads(out)]


@contextmanager
def _run(module: Any, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, str(module.__file__), *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def attacked(world: World) -> Iterator[Attacked]:
    """A server as a process of its own."""
    with _started(world) as found:
        yield found


@pytest.fixture(scope="module")
def over_tls(world: World, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    """The same, with a certificate that signed itself."""
    with _started(world, signed_by_itself(tmp_path_factory.mktemp("tls"))) as found:
        yield found


@contextmanager
def _started(world: World, tls: Tls | None = None) -> Iterator[Attacked]:
    now = datetime.now(UTC)
    rights, expires = Rights.of(may=("read", "sql", "ingest")), now + timedelta(days=1)
    names = [f"{name} {len(tokens.read(world.tables))}" for name in ("hostile", "honest")]
    secrets = [tokens.create(world.tables, name, rights, expires=expires, now=now, random=os.urandom)[1] for name in names]
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(world.folder), "--port", "0", "--json"]
    if tls is not None:
        command += ["--tls-cert", str(tls.certificate), "--tls-key", str(tls.key)]
    bounds = {f"TANDEM_SERVING_{name}": str(value) for name, value in BOUNDS.items()}
    given = {**environ(), **bounds, "PYTHONPATH": PYTHONPATH}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=given)
    try:
        assert process.stdout is not None
        found = Attacked(json.loads(process.stdout.readline())["address"], *secrets)
        trusted = True if tls is None else ssl.create_default_context(cafile=tls.certificate)
        headers = {"Authorization": f"Bearer {found.honest}"}
        with httpx.Client(base_url=found.address, headers=headers, verify=trusted, timeout=60) as client:
            # What statements are forked from is there, and the view is in memory.
            assert client.post("/sql", json={"statement": "SELECT 1"}, timeout=120).status_code == 200
            assert client.get(*ROW, timeout=120).status_code == 200
        yield found
    finally:
        process.kill()
        process.communicate()


@contextmanager
def attack(attacked: Attacked, name: str) -> Iterator[None]:
    """The attack is under way."""
    with _run(attacker, name, attacked.address, attacked.hostile) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        yield


def late(found: list[tuple[int, float]], expected: int) -> list[tuple[int, float]]:
    """The requests that were not answered as expected, or not in time."""
    return [(status, seconds) for status, seconds in found if status != expected or seconds > victim.PATIENCE_S]


def check(attacked: Attacked, name: str) -> None:
    question = OF.get(name, ME)
    expected = 422 if question == NO_EVENT else 200
    with attack(attacked, name):
        found = attacked.asked(str(expected), *question)
    assert len(found) == victim.REQUESTS
    assert not late(found, expected)


@pytest.mark.each_run("bodies", "heads", "churn", "slow_events")
@pytest.mark.parametrize("name", [name for name in attacker.NUMBERS if name != "handshakes"])
def test_another_client_is_answered_while_the_attack_runs(attacked: Attacked, name: str) -> None:
    check(attacked, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", OVER_TLS)
def test_another_client_is_answered_over_tls_while_the_attack_runs(over_tls: Attacked, name: str) -> None:
    check(over_tls, name)
