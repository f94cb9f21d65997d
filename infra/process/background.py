"""A project's background processes: started detached, found again, and stopped, each known by pid and start time.

`run/<name>.json` in the state folder names the process whose death ends that part. A pid may be reused by another process; pid
and start time together are unique for as long as the machine runs.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from tandem.infra.files import atomic_files, file_lock, private_files
from tandem.infra.logs.files import OUT, LogBounds, begin_anew, log_of
from tandem.infra.logs.lines import spoken
from tandem.infra.process import pdeathsig
from tandem.views.errors import TandemError

_BOUNDS = LogBounds(bytes=8 << 20, kept=3)
_SHOWN_LINES = 15
_PROC = Path("/proc/self/stat")  # without it, use ps
_T = TypeVar("_T")


class Crashed(TandemError, code="process-crashed"):
    """A process ended, or did not become ready in time."""


class NotStopped(TandemError, code="process-not-stopped"):
    """A process did not end."""


class Process(msgspec.Struct, frozen=True):
    """One background process: its name, its pid and start time, and its log."""

    name: str
    pid: int
    started: str
    log: str


@dataclass(frozen=True)
class BackgroundProcess:
    """A process that this one has just started: its record, and the position in each of its files at which this start begins."""

    process: Process
    popen: "subprocess.Popen[bytes]"
    starts: Mapping[Path, int]

    def last_lines(self) -> list[str]:
        """The last lines that it wrote, in any of its files."""
        return [line for path, start in self.starts.items() for line in last_lines(path, start=start)][-_SHOWN_LINES:]


def spawn(
    state: Path,
    name: str,
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    folder: Path,
    bounds: LogBounds = _BOUNDS,
    logs_itself: bool = False,
    dies_with_us: bool = False,
) -> BackgroundProcess:
    """Start a process in its own session, and record it before it does anything. Its output is appended to `logs/<name>.log`.

    * `logs_itself`: the process bounds that file itself; its other output goes to `logs/<name>.out`.
    * `dies_with_us`: the kernel kills the process when the calling thread ends (`pdeathsig.py`).

    The caller holds `starting`, or is the supervisor, so that no other process starts one of this name meanwhile. Returns at
    once; see `wait`.
    """
    if dies_with_us:
        command = pdeathsig.command(command)
    log = log_of(state, name)
    output = log.with_suffix(OUT) if logs_itself else log
    log.parent.mkdir(parents=True, exist_ok=True)
    begin_anew(output, bounds)
    with output.open("ab") as sink:
        starts = {output: sink.tell()}
        if logs_itself:
            starts[log] = log.stat().st_size if log.exists() else 0
        # The shell waits for one line, so that the process is recorded before it runs: if this process is killed in between,
        # the line never arrives and nothing is left behind. exec keeps pid and start time.
        popen = subprocess.Popen(  # noqa: S603 - our own command
            ["/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh", *command],
            stdin=subprocess.PIPE,
            stdout=sink,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=dict(environ),
            start_new_session=True,
        )
    process = Process(name, popen.pid, start_time(popen.pid), str(log))
    _record(state, name).parent.mkdir(parents=True, exist_ok=True)
    _write(_record(state, name), msgspec.json.encode(process))
    if popen.stdin is not None:
        popen.stdin.write(b"go\n")
        popen.stdin.close()
    return BackgroundProcess(process, popen, starts)


def running(state: Path, name: str) -> Process | None:
    """The process of this name that was started for this state folder; None if it has ended."""
    process = recorded(state, name)
    return process if process is not None and alive(process) else None


def recorded(state: Path, name: str) -> Process | None:
    """The process of this name that was started last, alive or not; None without a readable record."""
    try:
        return msgspec.json.decode(_record(state, name).read_bytes(), type=Process)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def names(state: Path) -> list[str]:
    """All processes that were started for this state folder, running or not."""
    return sorted(path.stem for path in (state / "run").glob("*.json"))


def alive(process: Process) -> bool:
    """Whether this process lives, and not another one with its pid."""
    return start_time(process.pid) == process.started


def stopped(process: Process) -> bool:
    """Whether a living process was stopped by a signal, if this system reports that."""
    return _stat(process.pid)[:1] in (["T"], ["t"])


def wait(child: BackgroundProcess, ready: Callable[[], _T | None], *, seconds: float) -> _T:
    """Wait until `ready` returns a result; raises Crashed, with the log's last lines, if the process ends or time is up."""
    deadline = time.monotonic() + seconds
    while True:
        ended = child.popen.poll()
        if ended is None and (found := ready()) is not None:
            return found
        if ended is not None:
            raise Crashed(f"{child.process.name} ended while starting ({outcome(ended)}){said(child)}")
        if time.monotonic() > deadline:
            raise Crashed(f"{child.process.name} was not ready after {seconds:.0f} s{said(child)}")
        time.sleep(0.05)


def outcome(code: int) -> str:
    """How a process ended, in words, by the exit code of Popen."""
    return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def said(child: BackgroundProcess) -> str:
    """The last lines of a child, as the end of a sentence about it."""
    lines = child.last_lines()
    if not lines:
        return f"; {child.process.log} is empty"
    return f"; the last lines of {child.process.log}:\n" + "\n".join(f"  {line}" for line in lines)


def stop(state: Path, process: Process, *, seconds: float) -> None:
    """End a process and all processes of its session: by SIGTERM, and by SIGKILL after this many seconds."""
    deadline = time.monotonic() + seconds
    _signal(process.pid, signal.SIGTERM, only_if=alive(process))
    while alive(process) and time.monotonic() < deadline:
        _reap(process.pid)
        time.sleep(0.05)
    while leaves(process) and time.monotonic() < deadline:
        time.sleep(0.05)
    kill(process)
    patience = time.monotonic() + 10
    while alive(process) and time.monotonic() < patience:
        _reap(process.pid)
        time.sleep(0.02)
    if alive(process):
        raise NotStopped(f"{process.name} (process {process.pid}) was killed but does not end")
    forget(state, process.name)


def ask_to_end(process: Process) -> None:
    """Send SIGTERM to a process; returns at once."""
    _signal(process.pid, signal.SIGTERM, only_if=alive(process))


def kill(process: Process) -> None:
    """Kill a process and all processes of its session, also stopped ones; returns at once."""
    if not _PROC.exists():
        if leaves(process):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        return
    # Twice, for processes that were started while the first ones were listed.
    for _ in range(2):
        for pid in _session(process):
            _signal(pid, signal.SIGKILL, only_if=True)


def leaves(process: Process) -> bool:
    """Whether the process, or a process of the session that it led, lives; zombies do not count."""
    if alive(process):
        return True
    if start_time(process.pid):
        return False
    if _PROC.exists():
        return bool(_session(process))
    try:
        os.killpg(process.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _session(process: Process) -> list[int]:
    """The living members of the session that a process leads or led.

    A session keeps its number while it has members, so the number is not reused while one of them lives.
    """
    if (now := start_time(process.pid)) and now != process.started:
        return []
    listed = (int(entry.name) for entry in _PROC.parent.parent.glob("[0-9]*"))
    return [pid for pid in listed if _stat(pid)[3:4] == [str(process.pid)]]


def forget(state: Path, name: str) -> None:
    """Delete the record of an ended process and its pulse, so that it is not reported as dead."""
    _record(state, name).unlink(missing_ok=True)
    _record(state, name).with_suffix(".pulse").unlink(missing_ok=True)


@contextmanager
def starting(state: Path) -> Iterator[None]:
    """The lock for starting and stopping processes of a state folder, so that two commands do not do so at once."""
    path = private_files.folder(state) / "run" / "lock"
    path.parent.mkdir(exist_ok=True)
    with file_lock.held(path):
        yield


def last_lines(log: Path, *, start: int = 0, count: int = _SHOWN_LINES) -> list[str]:
    """The last lines that are not blank, from this byte of the log on; for events their text."""
    try:
        with log.open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(start, end - 64 * 1024))
            text = file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    return [spoken(line.rstrip()) for line in text.splitlines() if line.strip()][-count:]


def start_time(pid: int) -> str:
    """The start time of a process, as text that is constant for its whole life; empty if it has ended or never existed."""
    if not _PROC.exists():
        return _start_time_by_ps(pid)
    return f"{_boot()}:{fields[19]}" if (fields := _stat(pid)) else ""


def same_boot(started: str) -> bool:
    """Whether a start time is of this machine since its boot; true if that is unknown."""
    return not _PROC.exists() or started.partition(":")[0] == _boot()


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def _start_time_by_ps(pid: int) -> str:
    done = subprocess.run(  # noqa: S603 - a number
        ["/bin/ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    state, _, started = done.stdout.strip().partition(" ")
    return "" if state.startswith("Z") else started.strip()


def _record(state: Path, name: str) -> Path:
    return state / "run" / f"{name}.json"


def _write(path: Path, content: bytes) -> None:
    atomic_files.replace(path, content)


def _signal(pid: int, number: signal.Signals, *, only_if: bool) -> None:
    if only_if:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return


def _stat(pid: int) -> list[str]:
    """State, parent, group and further fields of a living process from Linux's /proc; empty for an ended process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return []
    # The name, in parentheses, may contain any character; the state and the other fields follow the last parenthesis.
    fields = text.rpartition(")")[2].split()
    return [] if fields[0] in "ZX" else fields


def _reap(pid: int) -> None:
    """Reap a child of this process, which stays in the process table until then; other processes cannot be waited for."""
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return
