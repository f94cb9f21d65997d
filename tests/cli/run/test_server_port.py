"""`up --serve` finds a taken port before anything starts: it replaces the default by a free port, and refuses a named port."""

import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tandem.cli.__main__ import main
from tandem.cli.run import server_port
from tandem.cli.run.server_port import ServingPortTaken, choose, last_port
from tandem.infra.process.ports import HOST, free, unused
from tandem.infra.settings import Settings


@pytest.fixture
def taken() -> Iterator[int]:
    """A port on which another program listens."""
    with socket.socket() as other:
        other.bind((HOST, 0))
        other.listen()
        yield int(other.getsockname()[1])


def settings(folder: Path, port: int) -> Settings:
    of = Settings(state=str(folder))
    return msgspec.structs.replace(of, serving=msgspec.structs.replace(of.serving, port=port))


def test_another_port_is_taken_for_the_default_and_kept(tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_port, "_DEFAULT", taken)
    lines: list[str] = []
    choose(settings(tmp_path, taken), None, lines.append)
    port = last_port(settings(tmp_path, taken))
    assert port is not None
    assert port != taken
    assert free(port)
    assert lines == [f"another program uses port {taken}; the server takes port {port} (`tandem up --serve --port N` names one)"]
    choose(settings(tmp_path, taken), None, lines.append)
    assert last_port(settings(tmp_path, taken)) == port


def test_a_named_port_is_refused_and_nothing_is_stored(tmp_path: Path, taken: int) -> None:
    for of, named, where in ((settings(tmp_path, unused()), taken, "--port"), (settings(tmp_path, taken), None, "serving.port")):
        with pytest.raises(ServingPortTaken, match=rf"another program uses port {taken} on 127.0.0.1 \({where}\)"):
            choose(of, named, print)
        assert last_port(of) is None


def test_a_free_port_is_stored_for_the_supervisor(tmp_path: Path) -> None:
    configured, named = unused(), unused()
    choose(settings(tmp_path, configured), None, print)
    assert last_port(settings(tmp_path, configured)) == configured
    choose(settings(tmp_path, configured), named, print)
    assert last_port(settings(tmp_path, configured)) == named
    choose(settings(tmp_path, 0), None, print)
    assert last_port(settings(tmp_path, 0)) == 0


def test_up_starts_nothing_for_a_taken_port(
    tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["init", str(tmp_path / "shop")]) == 0
    monkeypatch.setenv("TANDEM_PROJECT", str(tmp_path / "shop"))
    assert main(["up", "--serve", "--port", str(taken)]) == 1
    assert "another program uses port" in capsys.readouterr().err
    assert not (tmp_path / "shop" / ".tandem" / "broker").exists()
    assert main(["up", "--port", "8641"]) == 1
    assert "--port needs --serve" in capsys.readouterr().err
