"""Requests without one Host, invalid tokens without end, and what is not HTTP: refused, bounded, and seen in the access log."""

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.serving.http.connections.victim import REQUESTS, answered
from tests.serving.http.served import Served, serving
from tests.serving.world import World, forty_hits

BOGUS = "tandem_" + "A" * 43


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def served(world: World) -> Served:
    return Served(world)


@pytest.fixture(scope="module")
def address(served: Served) -> Iterator[str]:
    with serving(served) as found:
        yield found


def sent(address: str, content: bytes, *, ends: bool = False) -> bytes:
    """What is answered until the connection is closed; the client closes its half first if it `ends`."""
    url = httpx.URL(address)
    found = b""
    with socket.create_connection((url.host, url.port), timeout=60) as connection:
        connection.sendall(content)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            found += piece
    return found


@pytest.mark.parametrize(
    ("version", "hosts", "status"),
    [
        ("1.1", ["served"], 200),
        ("1.1", ["127.0.0.1:8640"], 200),
        ("1.1", ["[::1]:8640"], 200),
        ("1.0", [], 200),  # which has none to send
        ("1.1", [], 400),
        ("1.1", [""], 400),
        ("1.1", ["served", "served"], 400),
        ("1.1", ["served", "evil.example"], 400),
        ("1.0", ["served", "evil.example"], 400),
        ("1.1", ["served, evil.example"], 400),
        ("1.1", ["served/evil"], 400),
        ("1.1", ["user@evil.example"], 400),
        ("1.1", ["served:99999999"], 400),
    ],
    ids=str,
)
def test_a_request_has_exactly_one_host(address: str, version: str, hosts: list[str], status: int) -> None:
    head = "".join(f"Host: {host}\r\n" for host in hosts)
    answer = sent(address, f"GET /healthz HTTP/{version}\r\n{head}Connection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer
    if status == 400:
        assert b"application/problem+json" in answer
        assert b"Host header" in answer


@pytest.mark.parametrize(
    "content",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET / HTTP/1.1\r\nHost: x\r\nsecret value\r\n\r\n",
    ],
    ids=["tls", "header"],
)
def test_bytes_that_are_not_http_are_refused_and_logged(served: Served, address: str, content: bytes) -> None:
    served.lines.clear()
    assert sent(address, content).startswith(b"HTTP/1.1 400 ")
    (line,) = served.lines
    assert {name: line[name] for name in ("event", "who", "client", "status")} == {
        "event": "unparseable request",
        "who": None,
        "client": "127.0.0.1",
        "status": 400,
    }
    assert "secret" not in str(line)


def test_invalid_tokens_of_an_address_have_to_wait_and_valid_ones_do_not(world: World) -> None:
    served = Served(world, {"failed_logins": 3})
    bogus, good = {"Authorization": f"Bearer {BOGUS}"}, {"Authorization": f"Bearer {served.token('good')}"}
    with served.asker() as asker:
        assert [asker.get("/me", headers=bogus).status_code for _ in range(5)] == [401, 401, 401, 429, 429]
        assert asker.get("/me", headers=good).status_code == 200
        refused = asker.get("/me", headers=bogus)
        assert refused.headers["retry-after"] == "21"
        assert refused.json()["detail"] == "too many invalid tokens from this address; try again in 20.0 s"
        assert asker.get("/me", headers={"Authorization": ""}).status_code == 401  # which tries nothing
        served.seconds += 20
        assert [asker.get("/me", headers=bogus).status_code for _ in range(2)] == [401, 429]
        assert asker.get("/me", headers=good).status_code == 200


@pytest.mark.slow
def test_others_are_answered_while_one_address_guesses(tmp_path: Path) -> None:
    served = Served(forty_hits(tmp_path))
    secret = served.token("bystander")
    with serving(served) as address, ThreadPoolExecutor(4) as guessing:
        over = False

        def guess() -> set[int]:
            found = set[int]()
            with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {BOGUS}"}, timeout=60) as client:
                while not over:
                    found.add(client.get("/me").status_code)
            return found

        guesses = [guessing.submit(guess) for _ in range(4)]
        try:
            assert answered(address, secret) == REQUESTS
        finally:
            over = True
        assert set[int]().union(*(one.result() for one in guesses)) == {401, 429}
