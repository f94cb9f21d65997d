"""Whatever one process does to a server, another one with another token, at another address, is answered within two seconds."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from serving.access import tokens
from serving.access.rights import Rights
from tests.serving.http import attacker, victim
from tests.serving.world import World, forty_hits
from tests.stack import PYTHONPATH, environ

ME = ("/me",)
ROW = ("/views/per_page/row?key.page=/00&window=2026-11-01T12:00",)
ONE = ("/sql", '{"statement": "SELECT 1 AS n"}')
OF = {"large_bodies": ROW, "statements": ONE, "unread": ONE, "streams": ROW, "flood": ROW}
"""What the victim asks, where that is not who it is."""


BOUNDS = {"CONNECTIONS": 500, "CONNECTIONS_PER_ADDRESS": 100}
"""Fewer connections than by default, so that fewer are too many."""


@dataclass(frozen=True)
class Attacked:
    port: int
    hostile: str
    honest: str

    def asked(self, *question: str, source: str = "127.0.0.2") -> list[tuple[int, float]]:
        """What came of a hundred requests of an honest client."""
        found = _run(victim, str(self.port), self.honest, source, *question)
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
    file, now = tokens.file_of(Path(world.tables.root)), datetime.now(UTC)
    rights, expires = Rights.of(may=("read", "sql")), now + timedelta(days=1)
    secrets = [
        tokens.create(file, name, rights, expires=expires, now=now, random=os.urandom)[1] for name in ("hostile", "honest")
    ]
    command = [sys.executable, "-m", "cli", "serve", "--project", str(world.folder), "--port", "0", "--json"]
    bounds = {f"TANDEM_SERVING_{name}": str(value) for name, value in BOUNDS.items()}
    given = {**environ(), **bounds, "PYTHONPATH": PYTHONPATH}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=given)
    try:
        assert process.stdout is not None
        port = urlsplit(json.loads(process.stdout.readline())["address"]).port
        assert port is not None
        found = Attacked(port, *secrets)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers={"Authorization": f"Bearer {secrets[1]}"}) as client:
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
    with _run(attacker, name, str(attacked.port), attacked.hostile) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        yield


def late(found: list[tuple[int, float]]) -> list[tuple[int, float]]:
    """The requests that were not answered, or not in time."""
    return [(status, seconds) for status, seconds in found if status != 200 or seconds > victim.PATIENCE_S]


@pytest.mark.parametrize("name", attacker.NUMBERS)
def test_another_client_is_answered_while_the_attack_runs(attacked: Attacked, name: str) -> None:
    with attack(attacked, name):
        found = attacked.asked(*OF.get(name, ME))
    assert len(found) == victim.REQUESTS
    assert not late(found)
