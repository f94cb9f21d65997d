"""Answers as fresh as requested: freshness is checked at the snapshot from which a question was answered."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from typing import Final, TypeVar

from tandem.ledger.log.positions import Position, distance
from tandem.serving.http.answers.cache import AnswerCache
from tandem.serving.http.answers.lane import Lane
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.requests.server import Server
from tandem.serving.read.selection import parse_position, parse_span
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.status.part_state import NEEDED
from tandem.views.view import View

T = TypeVar("T")
Holds = Callable[[Snapshot, datetime], bool]
"""Whether answers at a snapshot are fresh enough at a time of day."""

_AGAIN: Final = {"Retry-After": "1"}


async def ask_fresh(
    server: Server,
    lane: Lane,
    view: View,
    question: Callable[[AnswerCache], T],
    *,
    by: str,
    min_position: str | None,
    max_age: str | None,
    at_the_cut: bool,
    bound: bool,
) -> T:
    """The result of a question to the lane, once answers of a view count a position and an event appended within `max_age`.

    `at_the_cut` says that they count what is below the cut. A caller that is `bound` to rows may not use positions and gets
    none. Raises the question's errors, BadSelection, and Problem 504 after `wait_s`.
    """
    if bound and min_position is not None:
        raise Problem(403, "a token that is restricted to rows may not use min_position, because positions count all rows")
    most = None if max_age is None else parse_span(max_age)
    position = None if min_position is None else parse_position(min_position)

    source = view.source.name

    def holds(snapshot: Snapshot, now: datetime) -> bool:
        snapshot = snapshot.of(view)
        tail = snapshot.tails.get(source)
        if tail is None or tail.problem is not None:
            return True  # the answer says so
        newest = snapshot.newest(source)
        young = most is None or (newest is not None and now - newest <= most)
        return young and (position is None or position.at_or_below(tail.cut if at_the_cut else tail.end))

    def why(snapshot: Snapshot) -> str:
        snapshot = snapshot.of(view)
        tail = snapshot.tails.get(source)
        if tail is None:
            return f"source '{source}' has no answers any more"
        newest = snapshot.newest(source)
        stand = "" if bound else f"answers stand at {json.dumps((tail.cut if at_the_cut else tail.end).to_json())}, and "
        return f"{stand}the newest event counted was appended {'never' if newest is None else f'at {newest.isoformat()}'}"

    async def ask() -> tuple[Snapshot, T]:
        def at(cache: AnswerCache) -> tuple[T, Snapshot]:
            return question(cache), cache.live().snapshot  # in this order: a question may move on to a newer snapshot

        found, snapshot = await lane.ask(at, by=by)
        return snapshot, found

    return await _once(server, lane, holds, ask, why, views=(view,))


async def ask_all_fresh(
    server: Server, views: Collection[View], min_position: str, ask: Callable[[], Awaitable[tuple[Snapshot | None, T]]]
) -> T:
    """The result of a question once answers of several views count a position: each view whose source has a topic of it.

    `ask` also returns the snapshot that it answered from; None if it read nothing. Raises its errors, BadSelection, and Problem
    504 after `wait_s`.
    """
    position = parse_position(min_position)

    def why(snapshot: Snapshot) -> str:
        return f"{_lacking(snapshot, views, position)} offsets below min_position are not counted"

    return await _once(server, server.lane, lambda snapshot, _: not _lacking(snapshot, views, position), ask, why, views=views)


async def _once(
    server: Server,
    lane: Lane,
    holds: Holds,
    ask: Callable[[], Awaitable[tuple[Snapshot | None, T]]],
    why: Callable[[Snapshot], str],
    *,
    views: Collection[View],
) -> T:
    """The result of a question at a snapshot that holds; Problem 504 after `wait_s`, which reports `why(snapshot)`.

    The question is asked once the lane's newest snapshot holds. It may still be answered from another one, because answers may
    leave a hot position while it waits for its turn, and SQL reads views with code from a store of their own. Then it is retried.
    The problem reports the last snapshot that did not hold: a newer one may.
    """
    seconds, loop = server.settings.wait_s, asyncio.get_running_loop()
    ends = loop.time() + seconds
    stale: Snapshot | None = None

    def fresh(snapshot: Snapshot, now: datetime) -> bool:
        nonlocal stale
        for view in views:
            lane.cache.store.use(view.name)  # who waits asks, too
        held = holds(snapshot, now)
        stale = stale if held else snapshot
        return held

    while (left := ends - loop.time()) > 0 and await lane.until(lambda one: fresh(one, server.now()), seconds=left):
        newest, now = lane.newest, server.now()
        snapshot, found = await ask()
        if snapshot is None or fresh(snapshot, now):
            return found
        await lane.another(newest, seconds=min(lane.every, max(0.0, ends - loop.time())))
    said = f"not as fresh as requested within {seconds} s: {why(stale or lane.snapshot())}{_standing_still(server)}"
    raise Problem(504, said, headers=_AGAIN)


def _lacking(snapshot: Snapshot, views: Collection[View], position: Position) -> int:
    """How many offsets below a position the answers of these views lack; views without an answer report that."""
    tails = [snapshot.of(view).tails.get(view.source.name) for view in views]
    ends = [tail.end for tail in tails if tail is not None and tail.problem is None]
    lacking = 0
    for topic in {topic for topic, _ in position}:
        below = Position.of({place: offset for place, offset in position.items() if place[0] == topic})
        known = [end for end in ends if any(place[0] == topic for place in end)]
        lacking += max(distance(end, below) for end in known or [Position()])
    return lacking


def _standing_still(server: Server) -> str:
    """The parts without progress, in a sentence for any caller."""
    return "".join(f"; {one.brief}" for one in server.parts.states if one.red and one.part in NEEDED)
