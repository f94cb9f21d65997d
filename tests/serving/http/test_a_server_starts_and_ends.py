"""`tandem serve` on a real socket: it prints its address, accepts the token that it created, and ends cleanly."""

import contextlib
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from tandem.cli.__main__ import main
from tandem.infra.folders import ROOT
from tandem.ledger.log.positions import LOG_START
from tandem.serving.http import listener
from tandem.serving.http.listener import CannotServe, Tls
from tests.serving import oracle
from tests.serving.http.certificate import signed_by_itself
from tests.serving.http.served import Served, serving
from tests.serving.world import World, forty_hits


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate of loopback that signed itself."""
    return signed_by_itself(tmp_path_factory.mktemp("tls"))


@contextmanager
def started(world: World, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(world.folder), "--port", "0", "--json", *options]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


def test_the_first_start_creates_a_token_and_sigterm_ends_cleanly(world: World) -> None:
    file = world.folder / ".tandem" / "access" / "first.token"
    with started(world) as (process, told):
        assert file.stat().st_mode & 0o777 == 0o600
        with httpx.Client(
            base_url=told["address"], headers={"Authorization": f"Bearer {file.read_text().strip()}"}, timeout=60
        ) as client:
            rows = client.get("/views/per_page/rows").json()["rows"]
            assert oracle.unlabelled(rows) == oracle.per_page(world.values(LOG_START, world.end))
            assert client.get("/openapi.json").json()["info"]["title"] == "Tandem"
        assert httpx.get(f"{told['address']}/views", timeout=60).status_code == 401
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=300)
        assert (process.returncode, out) == (0, "")
        assert str(file) in err
        assert file.read_text().strip() not in err
    made = file.read_text()
    with started(world) as (process, _):
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=300)
        assert process.returncode == 0
        assert "token" not in err
    assert file.read_text() == made
    lines = [json.loads(line) for line in (world.folder / ".tandem" / "logs" / "access.log").read_text().splitlines()]
    assert [(line["who"], line["status"]) for line in lines] == [("token:first", 200), ("token:first", 200), (None, 401)]


def test_running_requests_finish_before_the_end(world: World) -> None:
    served = Served(world, {"wait_s": 2})
    headers = {"Authorization": f"Bearer {served.token('under way')}"}
    found: list[httpx.Response] = []
    with serving(served) as address:
        path = '/views/ever/rows?min_position={"T":{"0":99}}'
        asked = threading.Thread(target=lambda: found.append(httpx.get(f"{address}{path}", headers=headers, timeout=60)))
        asked.start()
        under_way = threading.Event()
        while not served.server.limits._uses:
            under_way.wait(0.01)
    asked.join()
    assert [answer.status_code for answer in found] == [504]


def test_connections_stay_open_and_send_small_answers_at_once(world: World) -> None:
    served = Served(world)
    with serving(served) as address, httpx.Client(base_url=address, timeout=60) as client:
        assert [client.get("/healthz").status_code for _ in range(3)] == [200, 200, 200]
        pool = client._transport._pool  # type: ignore[attr-defined]
        assert len(pool.connections) == 1
    bound = listener.listening("127.0.0.1", 0, tls=None)
    with bound, socket.create_connection(bound.getsockname()):
        accepted, _ = bound.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_an_incomplete_head_ends_its_connection(world: World) -> None:
    begun = b"GET /healthz HTTP/1.1\r\nHost: served\r\n"
    with serving(Served(world, {"head_s": 1})) as address:
        url = httpx.URL(address)

        def connected() -> socket.socket:
            return socket.create_connection((url.host, url.port), timeout=60)

        with connected() as endless, contextlib.suppress(OSError):
            endless.sendall(begun + b"X-Long: ")
            while True:  # until nobody reads it any more
                endless.sendall(b"x" * 4096)
        with connected() as silent:
            assert silent.recv(1) == b""
        with connected() as slow:
            slow.sendall(begun)
            assert slow.recv(1) == b""
        with connected() as kept:
            for _ in range(2):
                kept.sendall(begun + b"\r\n")
                assert kept.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
            kept.sendall(begun)
            assert kept.recv(1) == b""


def test_a_given_certificate_is_used(world: World, tls: Tls) -> None:
    with serving(Served(world), tls) as address:
        assert address.startswith("https://127.0.0.1:")
        trusting = ssl.create_default_context(cafile=str(tls.certificate))
        assert httpx.get(f"{address}/healthz", verify=trusting, timeout=60).status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{address.replace('https', 'http')}/healthz")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.com", ""])
def test_without_tls_the_server_listens_only_on_loopback(host: str) -> None:
    with pytest.raises(CannotServe, match="needs --tls-cert and --tls-key; 127"):
        listener.listening(host, 0, tls=None)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_loopback_needs_no_tls(host: str) -> None:
    with listener.listening(host, 0, tls=None) as bound:
        assert listener.address_of(bound, tls=None).startswith("http://127.0.0.")


def test_a_refused_start_is_one_sentence(world: World, tls: Tls, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(*options: str) -> str:
        assert main(["serve", "--project", str(world.folder), "--json", *options]) == 1
        sentence: str = json.loads(capsys.readouterr().out)["error"]
        assert "\n" not in sentence
        return sentence

    assert "other machines can reach 0.0.0.0" in refused("--host", "0.0.0.0")
    assert "--tls-key needs --tls-cert" in refused("--tls-key", str(tls.key))
    assert "certificate and key cannot be used" in refused("--port", "0", "--tls-cert", str(tls.key), "--tls-key", str(tls.key))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "choose another --port" in refused("--port", str(taken.getsockname()[1]))


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("serving", ("fastapi", "uvicorn", "httpx", "joserfc", "pandas", "polars")),
        ("tandem.serving.client.server_client", ("fastapi", "uvicorn", "joserfc", "pandas", "polars")),
    ],
)
def test_a_reader_imports_no_server(module: str, heavy: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout == "[]\n"
