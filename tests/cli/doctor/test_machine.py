"""Python, Java, jars, ports and the project's own files, valid and invalid."""

import os
import resource
import socket
import sys
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tandem.cli.doctor.machine import NO_ARCHIVE, NO_ARCHIVE_THERE, OTHER_PORT
from tandem.infra.java import jars, java_home
from tandem.infra.process import background
from tandem.views.errors import TandemError
from tests.cli.doctor.looked import fine, looked, wrong
from tests.stack import environ


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text("SOURCES = ()\nVIEWS = ()\n")
    return tmp_path


def test_another_python_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sys.executable in fine(folder, "python")
    monkeypatch.setattr(sys, "version_info", (3, 14, 1))
    assert "the locked packages need 3.11, 3.12 or 3.13" in wrong(folder, "python").what


def test_a_missing_java_is_a_finding(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert " at /" in looked(folder, "java")[0].what
    monkeypatch.setattr(sys, "prefix", str(folder))  # where the packaged one would be
    found = wrong(folder, "java", environ={"PATH": str(folder), "JAVA_HOME": str(folder)})
    assert f"JAVA_HOME has a Java that does not run ({folder})" in found.what


def test_a_java_without_an_archive_of_sparks_classes_is_a_finding(folder: Path) -> None:
    try:
        java_home.refuse_escapes([Path(sys.prefix)])
    except TandemError as error:
        pytest.skip(str(error))
    assert " is missing" in wrong(folder, "java", NO_ARCHIVE, environ={**environ(), "TANDEM_CACHE": str(folder)}).what


def test_a_cache_where_java_archives_nothing_is_a_finding(folder: Path) -> None:
    away = folder / "a cache"
    assert str(away) in wrong(folder, "java", NO_ARCHIVE_THERE, environ={**environ(), "TANDEM_CACHE": str(away)}).what


def test_missing_jars_are_a_finding(folder: Path) -> None:
    assert "as pinned" in fine(folder, "jars")
    assert wrong(folder, "jars", environ={"TANDEM_CACHE": str(folder)}).what.startswith(f"{len(jars.pinned())} jars in ")


def test_a_loopback_without_ports_is_a_finding(folder: Path) -> None:
    fine(folder, "loopback")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        found = wrong(folder, "loopback")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "Too many open files" in found.what


def test_invalid_settings_are_a_finding(folder: Path) -> None:
    told = fine(folder, "settings", environ={"TANDEM_KAFKA_PARTITIONS": "3"})
    assert told == f"{folder / 'tandem.toml'}, TANDEM_KAFKA_PARTITIONS"
    (folder / "tandem.toml").write_text("[kafka]\npartition = 2\n")
    assert "tandem.toml:2: unknown key 'partition'" in wrong(folder, "settings").what


def test_definitions_that_do_not_load_are_a_finding(folder: Path) -> None:
    assert fine(folder, "definitions") == "0 sources, 0 views"
    (folder / "definitions.py").write_text("SOURCES = (\n")
    assert "definitions.py" in wrong(folder, "definitions").what


def test_a_configured_port_of_another_program_is_a_finding(folder: Path) -> None:
    assert fine(folder, "ports") == "the broker will use a free port"
    assert "outside broker" in fine(folder, "ports", environ={"TANDEM_KAFKA_BOOTSTRAP": "somewhere:9092"})
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = str(other.getsockname()[1])
        assert (
            f"another program uses port {port} on 127.0.0.1 (kafka.port)"
            in wrong(folder, "ports", environ={"TANDEM_KAFKA_PORT": port}).what
        )
    assert fine(folder, "ports", environ={"TANDEM_KAFKA_PORT": port}) == f"kafka.port {port} is free"


def test_a_broker_on_another_port_is_a_finding(folder: Path) -> None:
    pid, state = os.getpid(), folder / ".tandem"
    for name, content in {
        "run/broker.json": background.Process("broker", pid, background.start_time(pid), "broker.log"),
        "broker/ports.json": {"port": 9092, "controller": 9093},
    }.items():
        (state / name).parent.mkdir(parents=True)
        (state / name).write_bytes(msgspec.json.encode(content))
    (state / "broker/password").write_text("h" * 32 + "\n")
    assert fine(folder, "ports") == f"broker (process {pid}); kafka at 127.0.0.1:9092"
    fine(folder, "ports", environ={"TANDEM_KAFKA_PORT": "9092"})
    assert "kafka.port is 92" in wrong(folder, "ports", OTHER_PORT, environ={"TANDEM_KAFKA_PORT": "92"}).what
    (state / "broker/ports.json").unlink()
    assert [found.outcome for found in looked(folder, "ports")] == ["unknown"]
