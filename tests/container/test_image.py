"""The image, built and run by podman: exact answers on a read-only root, and the same after a stop and a start."""

import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tandem.infra.folders import ROOT
from tandem.infra.process.ports import unused

pytestmark = pytest.mark.slow
_BUILD_S: Final = 1500
_START_S: Final = 400
# Some machines let no process raise the limits that podman sets; a container has the machine's then.
_WITHOUT_LIMITS: Final = """\
#!/usr/bin/python3
import json, os, sys

words = sys.argv[1:]
named = {"--bundle": "config.json", "-b": "config.json", "--process": ""}
for flag, name in named.items():
    if flag in words:
        path = os.path.join(words[words.index(flag) + 1], name).rstrip("/")
        with open(path) as file:
            given = json.load(file)
        given.get("process", given).pop("rlimits", None)
        with open(path, "w") as file:
            json.dump(given, file)
os.execvp("runc", ["runc", *words])
"""


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Run podman and return what it prints."""
    needed = ("podman", "runc", "mmdebstrap")
    if missing := [name for name in needed if not shutil.which(name)]:
        pytest.skip(f"needs {', '.join(missing)}: apt-get install {' '.join(needed)}")
    runtime = tmp_path_factory.mktemp("runtime") / "without-limits"
    runtime.write_text(_WITHOUT_LIMITS, "utf-8")
    runtime.chmod(0o755)

    def run(*words: str, seconds: float = 120, check: bool = True, stdin: str | None = None) -> str:
        done = subprocess.run(
            ["podman", "--runtime", str(runtime), *words],
            cwd=ROOT,
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if words[0] == "logs" else subprocess.PIPE,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert not check or done.returncode == 0, f"{done.stdout}{done.stderr}"
        return done.stdout

    return run


@pytest.fixture(scope="module")
def image(podman: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image that TEST_IMAGE names, else an image built on a base of Debian's packages, which needs no image registry."""
    if given := os.environ.get("TEST_IMAGE"):
        return given
    base = tmp_path_factory.mktemp("base") / "base.tar"
    subprocess.run(
        ["mmdebstrap", "--variant=minbase", "bookworm", str(base)],
        check=True,
        capture_output=True,
        timeout=_BUILD_S,
        cwd=base.parent,
    )
    podman("import", str(base), "localhost/tandem-test-base", seconds=_BUILD_S)
    secrets = {"pip": Path("/etc/pip.conf"), "certificates": Path("/etc/ssl/certs/ca-certificates.crt")}
    podman(
        "build",
        *(
            "--network",
            "host",
            "--format",
            "docker",
            "--build-arg",
            "BASE=localhost/tandem-test-base",
            "--build-arg",
            "AIRFLOW=no",
        ),
        *(word for name, file in secrets.items() if file.exists() for word in ("--secret", f"id={name},src={file}")),
        *("-t", "localhost/tandem-test", "."),
        seconds=_BUILD_S,
    )
    return "localhost/tandem-test"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of `init`, readable for the container's user."""
    folder = tmp_path_factory.mktemp("projects") / "shop"
    subprocess.run([sys.executable, "-m", "tandem.cli", "init", str(folder)], check=True, capture_output=True, timeout=300)
    folder.chmod(0o755)
    return folder


class Container:
    """A container of the image with a volume of its own."""

    def __init__(self, podman: Callable[..., str], image: str, project: Path) -> None:
        self.podman, self.name, self.port = podman, f"tandem-test-{os.getpid()}", unused()
        podman(
            *("run", "-d", "--name", self.name, "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--tmpfs", "/tmp:exec,mode=1777", "-v", f"{project}:/project:ro", "-v", f"{self.name}:/var/lib/tandem"),
            *("-p", f"127.0.0.1:{self.port}:8443", "--stop-timeout", "120", image),
        )

    def tandem(self, *words: str, stdin: str | None = None) -> Any:
        return json.loads(self.podman("exec", "-i", self.name, "tandem", *words, "--json", seconds=_START_S, stdin=stdin))

    def wait(self) -> None:
        """Wait until the image's own health check succeeds."""
        deadline = time.monotonic() + _START_S
        asked = "/opt/tandem/container/healthy && echo healthy"
        while "healthy" not in self.podman("exec", self.name, "sh", "-c", asked, check=False):
            running = self.podman("inspect", "-f", "{{.State.Running}}", self.name).strip()
            assert running == "true", self.podman("logs", self.name)
            assert time.monotonic() < deadline, self.podman("logs", self.name)
            time.sleep(1)

    def ask(self, path: str) -> Any:
        """The page's server, over TLS with the container's certificate, by the port on the host's loopback."""
        certificate = self.podman("exec", self.name, "cat", "/var/lib/tandem/tls/loopback.pem.crt")
        token = self.podman("exec", self.name, "cat", "/var/lib/tandem/state/access/first.token").strip()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {token}"})
        trusted = urllib.request.HTTPSHandler(context=ssl.create_default_context(cadata=certificate))
        with urllib.request.build_opener(urllib.request.ProxyHandler({}), trusted).open(request, timeout=30) as answer:
            return json.load(answer)

    def revenue(self) -> list[Any]:
        return sorted(json.dumps(row, sort_keys=True) for row in self.ask("/views/sales/rows?limit=10000")["rows"])


@pytest.fixture
def container(podman: Callable[..., str], image: str, project: Path) -> Iterator[Container]:
    started = Container(podman, image, project)
    try:
        yield started
    finally:
        podman("rm", "-f", "-v", started.name, check=False)
        podman("volume", "rm", "-f", started.name, check=False)


def test_answers_are_the_same_after_a_recompute_a_stop_and_a_start(
    container: Container, podman: Callable[..., str], project: Path
) -> None:
    container.wait()
    assert podman("exec", container.name, "id", "-u").strip() == "10001"
    podman("exec", container.name, "sh", "-c", "! touch /opt/tandem/new 2>/dev/null && ! touch /new 2>/dev/null")
    events = (project / "orders.jsonl").read_text("utf-8")
    sent = container.tandem("feed", "-", "--source", "orders", stdin=events)
    assert sent["sent"] == len(events.splitlines())
    container.tandem("recompute", "--archive")
    before = container.revenue()
    assert before
    podman("stop", container.name, seconds=150)
    assert podman("inspect", "-f", "{{.State.ExitCode}}", container.name).strip() == "0"
    podman("start", container.name)
    container.wait()
    assert container.revenue() == before
    secret = podman("exec", container.name, "cat", "/var/lib/tandem/state/access/first.token").strip()
    assert secret
    assert secret not in podman("logs", container.name)
