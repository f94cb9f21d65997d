"""The newest event times by partition, in microseconds: what says how far a partition has come, and which events are late."""

from collections.abc import Iterable

from views.ranges import Offsets


def newest_times(several: Iterable[Offsets]) -> dict[tuple[str, int], int]:
    """The newest event time by partition over several of such mappings."""
    newest: dict[tuple[str, int], int] = {}
    for partition, time in (item for times in several for item in times.items()):
        newest[partition] = max(time, newest.get(partition, time))
    return newest
