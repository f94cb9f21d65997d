"""Spark's JVM and its Python workers talk through sockets in a private folder, where its path is short enough."""

import errno
import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tandem.infra.folders import child_environment
from tandem.infra.spark import worker_sockets

PROGRAM = """
from tandem.infra.spark import worker_sockets
print(worker_sockets.properties({})[worker_sockets.FOLDER])
"""

SESSION = """
import os, sys
from tandem.infra.settings import Settings, SparkSettings
from tandem.infra.spark.session import get_or_create_session

def families(_):
    import psutil, socket
    own = psutil.Process()
    return sorted({socket.AddressFamily(one.family).name for one in own.net_connections("all") if one.status != "LISTEN"})

conf = dict(one.split("=") for one in sys.argv[2:])
settings = Settings(state=sys.argv[1], spark=SparkSettings(master="local[1]", driver_memory="512m", conf=conf))
session = get_or_create_session(settings, "sockets", environ=os.environ)
context = session.sparkContext
print(*context.parallelize([0], 1).map(families).collect()[0])

def remembered():
    files = context._jvm.java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
    files.setAccessible(True)
    return files.get(None).size()

before = remembered()
for _ in range(5):
    session.range(3).toArrow()
    session.range(3).collect()
print(remembered() - before)
"""


OFF = f"{worker_sockets.ENABLED}=false"


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(("conf", "family"), [([], "AF_UNIX"), ([OFF], "AF_INET")])
def test_a_worker_has_no_connection_of_the_network_unless_the_user_asks_for_it(
    tmp_path: Path, conf: list[str], family: str
) -> None:
    """And Java remembers nothing for each result."""
    command = [sys.executable, "-c", SESSION, str(tmp_path / "state"), *conf]
    environ = {**child_environment(os.environ), "TMPDIR": "/tmp"}
    ended = subprocess.run(command, capture_output=True, text=True, check=True, env=environ, timeout=300)
    families, more = ended.stdout.splitlines()
    assert family in families.split()
    assert ("AF_INET" in families.split()) == (family == "AF_INET")
    assert int(more) == 0


def test_only_this_user_may_enter_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    found = worker_sockets.properties({})
    assert [*found] == [worker_sockets.FOLDER]
    folder = Path(found[worker_sockets.FOLDER])
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [one.name for one in folder.iterdir()] == ["lock"]
    assert Path(worker_sockets.properties({worker_sockets.ENABLED: "true"})[worker_sockets.FOLDER]) != folder


@pytest.mark.parametrize("given", [{worker_sockets.ENABLED: "false"}, {worker_sockets.FOLDER: "/run/sockets"}])
def test_what_the_user_says_of_the_sockets_stays(given: dict[str, str]) -> None:
    assert worker_sockets.properties(given) == {}


def test_a_file_system_without_sockets_leaves_spark_its_network_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(tempfile, "tempdir", "/tmp")
    monkeypatch.setattr(socket.socket, "bind", refused, raising=False)
    assert worker_sockets.properties({}) == {}


def test_the_folder_goes_with_the_process() -> None:
    environ = {**os.environ, "TMPDIR": "/tmp"}
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, env=environ, timeout=300)
    folder = Path(ended.stdout.strip())
    assert folder.name.startswith("tandem-spark-")
    assert not folder.exists()


def test_too_long_a_path_leaves_spark_its_network_sockets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An address of such a socket has at most 103 bytes on some systems."""
    (tmp_path / ("n" * 80)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("n" * 80)))
    assert worker_sockets.properties({}) == {}
    for length, fits in ((60, True), (61, False)):
        assert worker_sockets.fits(Path("/" + "n" * (length - 1))) == fits
        assert len(os.fsencode("/" + "n" * (length - 1) + worker_sockets._NAME)) == length + 43
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    assert worker_sockets.properties({}) == {}
