"""A bound of the CPU of some processes, each with its children: so that one machine of few cores stands for several hosts.

Needs cgroups of version 1 with a `cpu` controller that this process may write, as in many containers; elsewhere no bound is set.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from tandem.bench.process_tree import tree

_CPU: Final = Path("/sys/fs/cgroup/cpu")
_PERIOD_US: Final = 100_000


@dataclass
class Quotas:
    """Groups of processes below a controller, one for each process tree; what a process starts later belongs to its group."""

    controller: Path
    name: str
    groups: list[Path] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)

    def bound(self, roots: Sequence[int], share: float) -> None:
        """Give each of these trees this share of one core, until `release`. Raises OSError where that is not allowed."""
        for root in roots:
            group = self.controller / f"{self.name}-{next(self.numbers)}"
            group.mkdir()
            self.groups.append(group)
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(int(share * _PERIOD_US)))
            for process in tree(root):
                # A process that has just ended cannot be moved.
                with suppress(ProcessLookupError):
                    (group / "cgroup.procs").write_text(str(process.pid))

    def release(self) -> None:
        """Bound no process any more. A group of processes that are just ending stays until the next call."""
        for group in self.groups:
            with suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):
                        (self.controller / "cgroup.procs").write_text(pid)
                group.rmdir()
        self.groups = [group for group in self.groups if group.exists()]


@contextmanager
def quotas(name: str, *, controller: Path = _CPU) -> Iterator[Quotas | None]:
    """Groups under this name until the block ends; None where this process may make none."""
    probe = controller / f"{name}-probe"
    try:
        probe.mkdir()
        writable = (probe / "cpu.cfs_quota_us").exists()
        probe.rmdir()
    except OSError:
        writable = False
    found = Quotas(controller, name) if writable else None
    try:
        yield found
    finally:
        if found is not None:
            found.release()
