"""Waiting until an answer is as fresh as requested."""

import json
from collections.abc import Collection
from typing import Final

from ledger.log.positions import Position, distance
from serving.http.answers.lane import Lane
from serving.http.protocol.problem import Problem
from serving.http.requests.server import Server
from serving.read.selection import parse_position, parse_span
from serving.read.snapshot import Snapshot
from serving.status.part_state import NEEDED

_AGAIN: Final = {"Retry-After": "1"}


async def wait(
    server: Server, lane: Lane, source: str, *, min_position: str | None, max_age: str | None, at_the_cut: bool, bound: bool
) -> None:
    """Return once the lane's answers about a source count a position, and an event that was appended within `max_age`.

    `at_the_cut` says that they count what is below the cut. A caller that is `bound` to rows may not use positions and gets
    none. Raises BadSelection, and Problem 504 after `wait_s`.
    """
    if bound and min_position is not None:
        raise Problem(403, "a token that is restricted to rows may not use min_position, because positions count all rows")
    most = None if max_age is None else parse_span(max_age)
    position = None if min_position is None else parse_position(min_position)

    def holds(snapshot: Snapshot) -> bool:
        tail = snapshot.tails.get(source)
        if tail is None or tail.problem is not None:
            return True  # the answer says so
        newest = snapshot.newest(source)
        young = most is None or (newest is not None and server.now() - newest <= most)
        return young and (position is None or position.at_or_below(tail.cut if at_the_cut else tail.end))

    seconds = server.settings.wait_s
    if not await lane.until(holds, seconds=seconds):
        snapshot = lane.snapshot()
        tail, newest = snapshot.tails[source], snapshot.newest(source)
        stand = "" if bound else f"answers stand at {json.dumps((tail.cut if at_the_cut else tail.end).to_json())}, and "
        raise Problem(
            504,
            f"not as fresh as requested within {seconds} s: {stand}"
            f"the newest event counted was appended {'never' if newest is None else f'at {newest.isoformat()}'}"
            f"{_standing_still(server)}",
            headers=_AGAIN,
        )


async def wait_for_all(server: Server, sources: Collection[str], min_position: str) -> None:
    """Return once answers about several sources count a position: each source that has a topic of it.

    Raises BadSelection, and Problem 504 after `wait_s`.
    """
    position, seconds = parse_position(min_position), server.settings.wait_s
    if not await server.lane.until(lambda snapshot: not _lacking(snapshot, sources, position), seconds=seconds):
        left = _lacking(server.lane.snapshot(), sources, position)
        raise Problem(
            504,
            f"not as fresh as requested within {seconds} s: {left} offsets below min_position are not counted"
            f"{_standing_still(server)}",
            headers=_AGAIN,
        )


def _lacking(snapshot: Snapshot, sources: Collection[str], position: Position) -> int:
    """How many offsets below a position the answers about these sources lack; sources without an answer report that."""
    ends = [snapshot.tails[name].end for name in sources if name in snapshot.tails and snapshot.tails[name].problem is None]
    lacking = 0
    for topic in {topic for topic, _ in position}:
        below = Position.of({place: offset for place, offset in position.items() if place[0] == topic})
        known = [end for end in ends if any(place[0] == topic for place in end)]
        lacking += max(distance(end, below) for end in known or [Position()])
    return lacking


def _standing_still(server: Server) -> str:
    """The parts without progress, in a sentence for any caller."""
    return "".join(f"; {one.brief}" for one in server.parts.states if one.red and one.part in NEEDED)
