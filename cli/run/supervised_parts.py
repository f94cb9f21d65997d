"""The parts of a project for its supervisor: how each is started, and how to tell that it is alive and makes progress."""

import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from tandem.cli.command.call import Call
from tandem.cli.run import part_processes, server_port
from tandem.infra import clock, folders
from tandem.infra.airflow import local_airflow
from tandem.infra.kafka import broker
from tandem.infra.logs.files import bounds
from tandem.infra.process import background, pulse
from tandem.infra.process.background import BackgroundProcess, Process
from tandem.infra.settings import Settings
from tandem.infra.supervision.stuck import Part, Sign, answered

if TYPE_CHECKING:
    from datetime import datetime

_ANSWER_S: Final = 5.0
_EVERY_S: Final = 2.0


def supervised(call: Call, settings: Settings) -> Sequence[Part]:
    """All parts that `up` may start, in the order in which they are started."""
    terms, embedded = settings.supervisor, not settings.kafka.bootstrap
    speed = Part(
        part_processes.SPEED,
        begin=lambda: _command(call, settings, part_processes.SPEED),
        ask=lambda process: _speed(settings, process),
        ready_s=settings.speed.ready_s,
        silent_s=terms.silent_s,
        moving_s=terms.trigger_s + (settings.speed.trigger_ms + settings.speed.hot_trigger_ms) / 1000,
        needs=(broker.NAME,) if embedded else (),
    )
    server = _answering(
        settings,
        part_processes.SERVER,
        begin=lambda: _command(call, settings, part_processes.SERVER),
        ask=lambda process: _server(settings, process),
        ready_s=settings.speed.ready_s,
    )
    sink = Part(
        part_processes.SINK,
        begin=lambda: _command(call, settings, part_processes.SINK),
        ask=lambda process: _sink(settings, process),
        ready_s=settings.speed.ready_s,
        silent_s=terms.silent_s,
        moving_s=terms.trigger_s,
    )
    ours = [*([_broker(call, settings)] if embedded else []), speed, server, sink]
    return [*ours, *(_airflow(call, settings, name) for name in local_airflow.NAMES)]


def _answering(
    settings: Settings,
    name: str,
    *,
    begin: Callable[[], BackgroundProcess],
    ask: Callable[[Process], bool],
    ready_s: float,
    needs: tuple[str, ...] = (),
) -> Part:
    """A part that answers requests; `ask` checks whether it does."""

    def sign(process: Process) -> Sign | None:
        at = time.monotonic()
        return answered(at) if ask(process) else None

    silent_s = settings.supervisor.silent_s
    return Part(name, begin, sign, ready_s=ready_s, silent_s=silent_s, moving_s=silent_s, every_s=_EVERY_S, needs=needs)


def _broker(call: Call, settings: Settings) -> Part:
    setups: dict[int, str] = {}

    def begin() -> BackgroundProcess:
        child, setup = broker.begin(settings, environ=call.environ, dies_with_us=True)
        setups[child.process.pid] = setup
        return child

    def ask(process: Process) -> bool:
        found = broker.answers(settings, setup=setups.get(process.pid, ""))
        if found:
            setups.pop(process.pid, None)
        return found

    return _answering(settings, broker.NAME, begin=begin, ask=ask, ready_s=broker.READY_S)


def _command(call: Call, settings: Settings, name: str) -> BackgroundProcess:
    part_processes.ready_file(settings.folder, name).unlink(missing_ok=True)
    debug = ["--debug"] if call.debug else []
    port = server_port.last_port(settings) if name == part_processes.SERVER else None
    chosen = [] if port is None else ["--port", str(port)]
    return _python(call, settings, name, ["tandem.cli", name, "--project", str(call.project), *chosen, *debug])


def _python(call: Call, settings: Settings, name: str, words: Sequence[str]) -> BackgroundProcess:
    """Run a module with the same interpreter and copy of the platform, whatever the PATH and the working folder are."""
    environ = {**folders.child_environment(call.environ), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", *words]
    return background.spawn(
        settings.folder,
        name,
        command,
        environ=environ,
        folder=call.project,
        bounds=bounds(settings.logs),
        dies_with_us=True,
    )


def _sink(settings: Settings, process: Process) -> Sign | None:
    """The state by the pulse: a target that is slow or dead changes nothing of it."""
    newest = _pulse(settings, part_processes.SINK, process)
    if newest is None:
        return None
    ready = part_processes.announced(settings.folder, part_processes.SINK, process) is not None
    return Sign(newest.at, min((loop.moved for loop in newest.loops), default=newest.at), newest.at if ready else None)


def _pulse(settings: Settings, name: str, process: Process) -> pulse.Pulse | None:
    """The pulse of this process of a part."""
    newest = pulse.read(settings.folder, name)
    return None if newest is None or (newest.pid, newest.began) != (process.pid, process.started) else newest


def _speed(settings: Settings, process: Process) -> Sign | None:
    """The state by the pulse: ready once `announced`, and up to date once all sources of the live release have polled."""
    found = _pulse(settings, part_processes.SPEED, process)
    if found is None:
        return None
    live = [loop for loop in found.loops if loop.release == found.live]
    looks = [loop.looked for loop in live if loop.looked is not None]
    ready = part_processes.announced(settings.folder, part_processes.SPEED, process) is not None and len(looks) == len(live)
    return Sign(
        at=found.at,
        moved=min((loop.moved for loop in found.loops), default=found.at),
        looked=min(looks, default=found.at) if ready else None,
        waits="; ".join(f"source '{loop.source}': {loop.waits}" for loop in live if loop.waits),
    )


def _server(settings: Settings, process: Process) -> bool:
    """Any answer is a sign of life, even 503."""
    facts = part_processes.announced(settings.folder, part_processes.SERVER, process)
    if facts is None:
        return False
    try:
        # Without a proxy, because the server is on this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        opener.open(f"{facts['address']}/healthz", timeout=_ANSWER_S).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _airflow(call: Call, settings: Settings, name: str) -> Part:
    began: list[datetime] = []
    parsed: list[int] = []

    def begin() -> BackgroundProcess:
        began[:] = [clock.now()]
        return local_airflow.begin(settings, name, environ=call.environ, dies_with_us=True)

    def ask(process: Process) -> bool:
        if not local_airflow.healthy(settings, name, since=began[0]):
            return False
        if name == local_airflow.DAGS and process.pid not in parsed and local_airflow.parsed(settings):
            parsed[:] = [process.pid]
        return name != local_airflow.DAGS or process.pid in parsed

    # The first thing that a task does is to report to the API.
    needs = () if name == local_airflow.API else (local_airflow.API,)
    return _answering(settings, name, begin=begin, ask=ask, ready_s=local_airflow.READY_S, needs=needs)
