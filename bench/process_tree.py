"""What a process and everything below it use: CPU seconds and memory, sampled by a thread."""

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import psutil

CPU_EVERY_S: Final = 0.2
MEMORY_SHARE: Final = 0.02
"""A read of `smaps_rollup` walks all pages of a process. It gets this share of the time, so large ones are read seldom."""


def tree(root: int) -> list[psutil.Process]:
    """The process and its living descendants, parents first; empty if it has ended."""
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(root: int) -> float:
    """The CPU seconds of the process, its descendants and the children that they have waited for."""
    total = 0.0
    for process in tree(root):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def pss_bytes(root: int) -> int:
    """The proportional set size of the process and its descendants: each shared page counts once over all who share it.

    On a system without `/proc` it is the sum of their resident sets, which counts shared pages several times.
    """
    return sum(_pss(process) for process in tree(root))


def _pss(process: psutil.Process) -> int:
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text("ascii").splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024
    except (FileNotFoundError, ProcessLookupError, StopIteration):
        with suppress(psutil.NoSuchProcess):
            return int(process.memory_info().rss) if not Path("/proc/self/smaps_rollup").exists() else 0
        return 0


def stop(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and its descendants, and wait for it."""
    for each in tree(process.pid):
        with suppress(psutil.NoSuchProcess):
            each.kill()
    process.wait()


@dataclass(frozen=True)
class ProcessSample:
    """CPU seconds so far of some processes together, at a time in seconds since the epoch."""

    at: float
    cpu: float


class Sampler:
    """A context in which a thread samples the CPU, and unless told otherwise the PSS, of some process trees, as one sum."""

    def __init__(
        self, roots: Callable[[], Sequence[int]], *, memory: bool = True, clock: Callable[[], float] = time.time
    ) -> None:
        self._roots = roots
        self._memory = memory
        self._clock = clock
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)
        self._samples: list[ProcessSample] = []
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._sample()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join()

    def cpu_at(self, at: float) -> float:
        """CPU seconds at a time, interpolated between the samples around it; of the first or last sample outside them."""
        return interpolated(self._samples, at)

    def _run(self) -> None:
        due = 0.0
        while not self._stop.wait(CPU_EVERY_S):
            self._sample()
            if self._memory and (began := time.monotonic()) >= due:
                self.peak_bytes = max(self.peak_bytes, sum(map(pss_bytes, self._roots())))
                due = began + (time.monotonic() - began) / MEMORY_SHARE
        self._sample()

    def _sample(self) -> None:
        cpu = sum(map(cpu_seconds, self._roots()))
        # A process that has just ended takes its seconds with it.
        if not self._samples or cpu >= self._samples[-1].cpu:
            self._samples.append(ProcessSample(self._clock(), cpu))


def interpolated(samples: Sequence[ProcessSample], at: float) -> float:
    """CPU seconds at a time between two samples, in proportion; of the first or the last sample outside them."""
    before = samples[0]
    for after in samples:
        if after.at >= at:
            passed = after.at - before.at
            return before.cpu + (after.cpu - before.cpu) * (max(at - before.at, 0.0) / passed if passed else 0.0)
        before = after
    return before.cpu
