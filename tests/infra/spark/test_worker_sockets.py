"""Spark's JVM and its Python workers talk through sockets in a private folder, where its path is short enough."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from infra.folders import child_environment
from infra.spark import worker_sockets

PROGRAM = """
from infra.spark import worker_sockets
print(worker_sockets.properties()["spark.python.unix.domain.socket.dir"])
"""

SESSION = """
import os, sys
from infra.settings import Settings, Spark
from infra.spark.session import get_or_create_session

def families(_):
    import psutil, socket
    own = psutil.Process()
    return sorted({socket.AddressFamily(one.family).name for one in own.net_connections("all") if one.status != "LISTEN"})

conf = dict(one.split("=") for one in sys.argv[2:])
settings = Settings(state=sys.argv[1], spark=Spark(master="local[1]", driver_memory="512m", conf=conf))
context = get_or_create_session(settings, "sockets", environ=os.environ).sparkContext
print(*context.parallelize([0], 1).map(families).collect()[0])
"""


@pytest.mark.spark
@pytest.mark.parametrize(("conf", "families"), [([], "AF_UNIX"), ([f"{worker_sockets.ENABLED}=false"], "AF_INET")])
def test_a_worker_has_no_connection_of_the_network_unless_the_user_asks_for_it(
    tmp_path: Path, conf: list[str], families: str
) -> None:
    command = [sys.executable, "-c", SESSION, str(tmp_path / "state"), *conf]
    environ = {**child_environment(os.environ), "TMPDIR": "/tmp"}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, timeout=300)
    assert families in ended.stdout.split()
    assert ("AF_INET" in ended.stdout.split()) == (families == "AF_INET")


def test_only_this_user_may_enter_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    found = worker_sockets.properties()
    folder = Path(found["spark.python.unix.domain.socket.dir"])
    assert found["spark.python.unix.domain.socket.enabled"] == "true"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert Path(worker_sockets.properties()["spark.python.unix.domain.socket.dir"]) != folder


def test_the_folder_goes_with_the_process() -> None:
    environ = {**os.environ, "TMPDIR": "/tmp"}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environ, timeout=60)
    folder = Path(ended.stdout.strip())
    assert folder.name.startswith("tandem-spark-")
    assert not folder.exists()


def test_too_long_a_path_leaves_spark_its_network_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of such a socket has at most 103 bytes on some systems."""
    (tmp_path / ("n" * 80)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("n" * 80)))
    assert worker_sockets.properties() == {}
    for length, fits in ((60, True), (61, False)):
        assert worker_sockets.fits(Path("/" + "n" * (length - 1))) == fits
        assert len(os.fsencode("/" + "n" * (length - 1) + worker_sockets._NAME)) == length + 43
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert worker_sockets.properties() == {}
