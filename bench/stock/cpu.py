"""CPU time of a process and everything below it, from /proc."""

import os
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


def _stat(pid: str) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on, None if the process is gone."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def processes() -> dict[int, list[int]]:
    """Every process's children."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and (stat := _stat(entry.name)) is not None:
            children.setdefault(int(stat[1]), []).append(int(entry.name))
    return children


def tree(root: int) -> list[int]:
    """The process and all below it, parents first."""
    children = processes()
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Seconds of CPU that the process, its descendants and the children they have waited for have used so far."""
    total = 0
    for pid in tree(root):
        if (stat := _stat(str(pid))) is not None:
            total += sum(int(ticks) for ticks in stat[11:15])
    return total / TICKS
