"""The demo's stage: a state folder of its own, and real `tandem` commands as child processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tandem.cli.command.call import Call
from tandem.cli.command.exclusive_state import emptied, own_state
from tandem.cli.command.signals import undisturbed
from tandem.cli.demo import traces
from tandem.cli.demo.bucket import own_bucket
from tandem.cli.demo.checks.stored_rows import SINKS_FOLDER
from tandem.cli.demo.spark_cluster import Cluster, own_cluster
from tandem.cli.demo.wait_for import wait_for
from tandem.cli.run import down
from tandem.infra import folders
from tandem.infra.process import background
from tandem.infra.process.background import Process
from tandem.infra.settings.spark_master import ON_THIS_HOST, kind
from tandem.views.errors import TandemError

_STOP_S = 15
_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")


class ChildEnded(TandemError, code="demo-process-ended"):
    """A process of the demo ended unexpectedly, or failed."""


@dataclass(frozen=True)
class DemoChild:
    """A running command: its JSON document goes to `output`, its stderr to `log`."""

    name: str
    popen: "subprocess.Popen[bytes]"
    output: Path
    log: Path

    def document(self) -> dict[str, Any]:
        """The document that the command printed. Raises ChildEnded if its output is not a document."""
        try:
            document: dict[str, Any] = json.loads(self.output.read_text("utf-8"))
        except ValueError:
            raise ChildEnded(f"`tandem {self.name}` printed no JSON document{_said(self.log)}") from None
        return document


@dataclass
class Stage:
    """The demo's processes: parts that `tandem up` keeps running, and commands that the demo waits for.

    `traces` are findings of `inspect`, without repetition.
    """

    call: Call
    state: Path
    cluster: Cluster | None = None
    parts: dict[str, Process] = field(default_factory=dict)
    children: list[DemoChild] = field(default_factory=list)
    traces: dict[str, None] = field(default_factory=dict)

    def disturb(self) -> None:
        """On a cluster, kill an executor of each application, once."""
        if self.cluster is not None:
            self.cluster.kill_one()

    def inspect(self) -> None:
        """On a cluster, look for tables and credentials where none may be."""
        if self.cluster is not None:
            secrets = [self.call.environ[name] for name in _CREDENTIALS]
            self.traces |= dict.fromkeys(
                [
                    *traces.in_command_lines(secrets),
                    *traces.in_files(self.state, secrets, tables_in=self.state / SINKS_FOLDER),
                ]
            )

    def start(self, *arguments: str) -> DemoChild:
        """Start `tandem ARGUMENTS` for the demo's project and state."""
        name = arguments[0]
        number = len(self.children)
        output = self.state / "demo" / f"{number}-{name}.json"
        log = self.state / "logs" / f"demo-{number}-{name}.log"
        for file in (output, log):
            file.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "tandem.cli", *arguments, "--project", str(self.call.project), "--json"]
        with output.open("wb") as out, log.open("wb") as err:
            popen = subprocess.Popen(  # noqa: S603 - our own command
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=dict(self.call.environ), start_new_session=True
            )
        child = DemoChild(name, popen, output, log)
        self.children.append(child)
        return child

    def finish(self, child: DemoChild, *, seconds: float, meanwhile: Callable[[], None] | None = None) -> dict[str, Any]:
        """Wait until a command ends, and return its document. Raises ChildEnded, TimedOut, and what `meanwhile` raises."""

        def look() -> None:
            self.check()
            if meanwhile is not None:
                meanwhile()

        wait_for(f"`tandem {child.name}` to end", child.popen.poll, seconds=seconds, meanwhile=look)
        self.check()
        return child.document()

    def up(self, *options: str, seconds: float) -> None:
        """Start the parts that are not running."""
        document = self.finish(self.start("up", *options), seconds=seconds)
        names = [part["name"] for part in document["processes"]]
        found = {name: background.running(self.state, name) for name in names}
        self.parts = {name: process for name, process in found.items() if process is not None}

    def kill(self, name: str) -> None:
        """Kill a part with SIGKILL and wait until it is gone; no command expects it to run before the next `up`."""
        process = self.parts.pop(name)
        os.kill(process.pid, signal.SIGKILL)

        def gone() -> bool | None:
            return None if background.alive(process) else True

        wait_for(f"{name} (process {process.pid}) to die", gone, seconds=_STOP_S, meanwhile=self.check)

    def check(self) -> None:
        """Raise ChildEnded, with the last lines of its log, if a part has ended or a command has failed."""
        for name, process in self.parts.items():
            if not background.alive(process):
                raise ChildEnded(f"{name} (process {process.pid}) ended unexpectedly{_said(Path(process.log))}")
        for child in self.children:
            if child.popen.poll():
                raise ChildEnded(f"`tandem {child.name}` failed with exit code {child.popen.returncode}{_said(child.log)}")

    def close(self) -> None:
        """Stop everything that the demo started, and nothing else."""
        self.parts = {}
        running = [child for child in self.children if child.popen.poll() is None]
        for child in running:
            child.popen.terminate()
        deadline = time.monotonic() + _STOP_S
        for child in running:
            with suppress(subprocess.TimeoutExpired):
                child.popen.wait(max(0.1, deadline - time.monotonic()))
            # The group: a JVM outlives the command that started it.
            with suppress(ProcessLookupError):
                os.killpg(child.popen.pid, signal.SIGKILL)
            child.popen.wait()
        down.run(self.call)


@contextmanager
def staged(call: Call, *, s3: bool = False, cluster: bool = False) -> Iterator[Stage]:
    """A stage with an empty state folder, for one demo of a project at a time; everything on it is stopped at the end.

    The folder is `demo/<project>` in the platform's own state folder, not in the project's. With `s3` all tables are in a bucket
    of the stage's own, with `cluster` Spark's tasks run on a cluster of its own. Raises TandemError if another demo of the
    project runs.
    """
    state = own_state(call.environ, "demo", call.project.name)
    stage = Stage(replace(call, json=True, environ=_environ(call, state)), state)
    # A killed demo leaves its processes behind.
    with emptied(state, before=lambda: down.run(stage.call)), ExitStack() as around:
        if s3:
            variables = around.enter_context(own_bucket(stage.call.environ, state / "logs" / "s3.log"))
            stage.call = replace(stage.call, environ={**stage.call.environ, **variables})
        if cluster:
            credentials = {name: stage.call.environ[name] for name in _CREDENTIALS}
            stage.cluster = around.enter_context(own_cluster(call.environ, state, call.project, credentials))
            stage.call = replace(stage.call, environ={**stage.call.environ, **stage.cluster.settings})
        try:
            yield stage
        finally:
            with undisturbed():
                stage.close()


def _environ(call: Call, state: Path) -> dict[str, str]:
    """The environment of the demo's commands: its own state, tables and broker, whatever the project's settings are.

    A cluster of the project cannot reach them.
    """
    local = kind(call.settings().spark.master) in ON_THIS_HOST
    own = {
        "TANDEM_STATE": str(state),
        "TANDEM_STORAGE_ROOT": "",
        "TANDEM_STORAGE_OPTIONS": "{}",
        "TANDEM_SINKS_TRIAL": str(state / SINKS_FOLDER),
        "TANDEM_KAFKA_BOOTSTRAP": "",
        "TANDEM_KAFKA_PORT": "0",
        **({} if local else {"TANDEM_SPARK_MASTER": "local[*]"}),
    }
    return {**folders.child_environment(call.environ), **own}


def _said(log: Path) -> str:
    lines = background.last_lines(log)
    return f"; the last lines of {log}:\n" + "\n".join(f"  {line}" for line in lines) if lines else f"; {log} is empty"
