"""Waiting until answers count given positions of the log: exactly the acknowledged records, whatever else is sent."""

import time
from collections.abc import Callable, Mapping

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position, distance
from tandem.serving.read.outcome import Failed
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import SnapshotFollower

_LOOK_S = 0.05


def uncounted(found: Snapshot | Failed, wanted: Mapping[str, Position]) -> int:
    """How many offsets below the wanted position of each source, by name, the answers lack; all of them without an answer."""
    tails = found.tails if isinstance(found, Snapshot) else {}
    counted = {source: tail.end for source, tail in tails.items() if tail.problem is None}
    return sum(distance(counted.get(source, Position()), position) for source, position in wanted.items())


def until_counted(
    tables: Tables,
    wanted: Mapping[str, Position],
    *,
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> int:
    """Return 0 once answers count the wanted position of each source, else how many offsets they lack after this many seconds."""
    following, deadline = SnapshotFollower(tables), clock() + seconds
    while (left := uncounted(following.refresh(), wanted)) and clock() < deadline:
        pause(_LOOK_S)
    return left
