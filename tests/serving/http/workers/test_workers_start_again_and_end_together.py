"""A worker that was killed is missed by nobody for long; workers end with the server, however it ends."""

import os
import signal
from pathlib import Path

import httpx
import pytest

from tests.serving.http.certificate import signed_by_itself
from tests.serving.http.workers.served_by_workers import PAGE, lives, wait_for, workers
from tests.serving.world import forty_hits


def test_requests_go_on_while_a_killed_worker_starts_again(tmp_path: Path) -> None:
    with workers(forty_hits(tmp_path)) as server:
        secret = server.token("goes on")[1]
        wait_for(lambda: server.client(secret).get(PAGE).status_code == 200)
        victim, other = server.pids
        os.kill(victim, signal.SIGKILL)

        def answers_again() -> bool:
            assert server.client(secret).get(PAGE).status_code == 200
            return len(server.pids) == 2

        wait_for(answers_again)
        assert victim not in server.pids
        assert other in server.pids
        assert {0, 1} == set(server.of_each(secret))
        log = (server.world.state / "logs" / "serve.log").read_text()
        assert "worker 0 ended (killed by SIGKILL); starting it again" in log or "worker 1 ended (killed by SIGKILL)" in log
        every = server.all_processes
        assert {server.process.pid, *server.pids} <= set(every)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert [pid for pid in every if lives(pid)] == []


def test_each_worker_uses_the_given_certificate(tmp_path: Path) -> None:
    with workers(forty_hits(tmp_path), tls=signed_by_itself(tmp_path)) as server:
        assert server.address.startswith("https://127.0.0.1:")
        secret = server.token("trusts the certificate")[1]
        assert {client.get(PAGE).status_code for client in server.of_each(secret).values()} == {200}
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"{server.address.replace('https', 'http')}/healthz")


def test_no_worker_outlives_a_server_that_was_killed(tmp_path: Path) -> None:
    with workers(forty_hits(tmp_path)) as server:
        every = server.all_processes
        server.process.kill()
        server.process.wait()
        wait_for(lambda: not any(lives(pid) for pid in every))
        try:
            httpx.get(server.address)
        except httpx.ConnectError:
            return
        raise AssertionError("something still listens")
