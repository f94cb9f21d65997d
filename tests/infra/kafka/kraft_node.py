"""A node of Kafka in KRaft mode, with a configuration of the test's own."""

import subprocess
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path

from tandem.infra.java import jars, java_home
from tandem.infra.process import pdeathsig
from tests.stack import environ


def new_cluster() -> str:
    """An id for the nodes of one cluster."""
    return urlsafe_b64encode(uuid.uuid4().bytes).decode("ascii").rstrip("=")


def begin_node(home: Path, configuration: str, *, cluster: str, java: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a node with these options of Java, and return at once; it dies with this process.

    The first start writes the configuration, whose `log.dirs` is `home / "data"`. The node's output is `home / "log"`.
    """
    home.mkdir(parents=True, exist_ok=True)
    properties, classpath = home / "server.properties", ":".join(map(str, jars.paths("broker", environ=environ())))
    run = [java_home.find(environ()).command, "-XX:-UsePerfData", *java, "-cp", classpath]
    if not (home / "data").exists():
        properties.write_text(configuration, "utf-8")
        prepare = [*run, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", f"--config={properties}"]
        subprocess.run(prepare, check=True, capture_output=True, timeout=300)
    command = pdeathsig.command([*run, "kafka.Kafka", str(properties)])
    with (home / "log").open("ab") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, cwd=home)
