"""CPU time of a process and everything below it."""

from contextlib import suppress

import psutil


def tree(root: int) -> list[psutil.Process]:
    """The process and all below it that still live, parents first; empty if it is gone."""
    try:
        process = psutil.Process(root)
        return [process, *process.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(root: int) -> float:
    """Seconds of CPU that the process, its descendants and the children they have waited for have used so far."""
    total = 0.0
    for process in tree(root):
        with suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total
