"""Asking a question: wait until the answer is as fresh as requested, in the lane that answers the view."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, TypeVar

from fastapi import Request

from tandem.ledger.log.positions import Position, distance
from tandem.ledger.united_positions import plain
from tandem.serving.access.rights import Principal
from tandem.serving.access.sealed_text import Seal
from tandem.serving.http.answer_cache.cache import AnswerCache, CachedAnswer, Gone
from tandem.serving.http.answer_cache.release_lanes import AnyLane
from tandem.serving.http.protocol.parameters import RowParameters, RowsParameters
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.monotonic import AnswersSeen, monotonic_floor, sealing
from tandem.serving.http.queries.parse import parse_cursor, parse_measures, question_of
from tandem.serving.http.queries.permitted import view_for
from tandem.serving.http.requests.server import Server, lane_of, principal_of, server_of
from tandem.serving.read.selection import BadSelection, parse_position, parse_span, parse_time
from tandem.serving.read.snapshot import Snapshot
from tandem.serving.read.snapshot_follower import live_at
from tandem.serving.status.part_state import NEEDED
from tandem.views.view import View


@dataclass(frozen=True)
class Found:
    """An answer, and what the response shows of it: these `measures`, and the rows after the first `given`.

    `bound` says whether the caller is restricted to rows; `monotonic` is for the header of that name, if it asks for it.
    """

    answer: CachedAnswer
    measures: tuple[str, ...]
    bound: bool
    given: int = 0
    monotonic: str | None = None

    def with_monotonic(self, request: Request, floor: AnswersSeen | None) -> "Found":
        """The same with the header of a client that has seen these answers before."""
        after = None if floor is None else floor.plus([(self.answer.view, self.answer.provenance)])
        return self if after is None else replace(self, monotonic=after.text(sealing(request)))


async def ask(request: Request, name: str, parameters: RowsParameters | RowParameters) -> Found:
    """The answer to a request for rows of a view. Raises Problem, BadSelection, Gone, ReadFailed."""
    server, principal = server_of(request), principal_of(request)
    if parameters.publication is not None and parameters.as_of is not None:
        raise BadSelection("publication and as_of cannot be combined")
    past = parameters.publication is not None or parameters.as_of is not None
    floor = None if past else monotonic_floor(request)
    wants_fresh = bool(parameters.min_position or parameters.max_age or floor)
    if past and wants_fresh:
        raise BadSelection("min_position and max_age cannot be combined with publication or as_of")
    if past and parameters.release is not None:
        raise BadSelection("release cannot be combined with publication or as_of")
    lane = server.lane if past else await lane_of(request, parameters.release)

    def found(cache: AnswerCache) -> Found:
        return _found(cache, principal, name, parameters, server.seal)

    if not wants_fresh:
        return await lane.ask(found, by=str(principal))
    view = await lane.ask(lambda cache: view_for(cache.views(), name, principal), by=str(principal))
    fresh = await ask_fresh(
        server,
        lane,
        view,
        found,
        by=str(principal),
        min_position=parameters.min_position,
        max_age=parameters.max_age,
        at_the_cut=parameters.layer == "batch",
        bound=bool(principal.rights.rows),
        floor=floor,
    )
    return fresh.with_monotonic(request, floor)


def _found(cache: AnswerCache, principal: Principal, name: str, parameters: RowsParameters | RowParameters, seal: Seal) -> Found:
    as_of = parameters.as_of
    publication = parameters.publication if as_of is None else live_at(cache.store.tables, parse_time(as_of))
    view = view_for(cache.views(publication), name, principal)
    question = question_of(view, principal, parameters, publication)
    measures = parse_measures(view, parameters.measures)
    bound = bool(principal.rights.rows)
    if isinstance(parameters, RowParameters) or parameters.cursor is None:
        return Found(cache.answer(question), measures, bound)
    at, basis = parse_cursor(parameters.cursor, seal if bound else None)
    if at.digest != question.digest:
        raise BadSelection("the cursor belongs to another query; change no parameters other than limit and measures")
    answer = cache.answer(question, stand=at.stand, after=at.given, basis=basis)
    if answer.dice != at.dice:
        raise Gone("the estimates of this cursor's pages have been computed again; send the request again without the cursor")
    return Found(answer, measures, bound, at.given)


T = TypeVar("T")
Holds = Callable[[Snapshot, datetime], bool]
"""Whether answers at a snapshot are fresh enough at a time of day."""

_AGAIN: Final = {"Retry-After": "1"}


async def ask_fresh(
    server: Server,
    lane: AnyLane,
    view: View,
    question: Callable[[AnswerCache], T],
    *,
    by: str,
    min_position: str | None,
    max_age: str | None,
    at_the_cut: bool,
    bound: bool,
    floor: AnswersSeen | None = None,
) -> T:
    """The result of a question to the lane, once answers of a view count a position and an event appended within `max_age`, and
    are not older than those that the client has seen.

    `at_the_cut` says that they count what is below the cut. A caller that is `bound` to rows may not use positions and gets
    none. Raises the question's errors, BadSelection, and Problem 504 after `wait_s`.
    """
    if bound and min_position is not None:
        raise Problem(403, "a token that is restricted to rows may not use min_position, because positions count all rows")
    most = None if max_age is None else parse_span(max_age)
    position = None if min_position is None else parse_position(min_position)

    source = view.source.name

    def holds(snapshot: Snapshot, now: datetime) -> bool:
        if floor is not None and not floor.holds(snapshot, view, at_the_cut=at_the_cut):
            server.lane.wake()  # on an object store it polls seldom while all of the log is counted
            return False
        snapshot = snapshot.of(view)
        tail = snapshot.tails.get(source)
        if tail is None or tail.problem is not None:
            return True  # the answer says so
        newest = snapshot.newest(source)
        young = most is None or (newest is not None and now - newest <= most)
        return young and (position is None or position.at_or_below(plain(tail.cut if at_the_cut else tail.end, view.source)))

    def why(snapshot: Snapshot) -> str:
        snapshot = snapshot.of(view)
        tail = snapshot.tails.get(source)
        if tail is None:
            return f"source '{source}' has no answers any more"
        newest = snapshot.newest(source)
        end = plain(tail.cut if at_the_cut else tail.end, view.source)
        of_publication = "" if floor is None else f" of publication {snapshot.publication.number}"
        stand = "" if bound else f"answers{of_publication} stand at {json.dumps(end.to_json())}, and "
        return f"{stand}the newest event counted was appended {'never' if newest is None else f'at {newest.isoformat()}'}"

    async def ask() -> tuple[Snapshot, T]:
        def at(cache: AnswerCache) -> tuple[T, Snapshot]:
            return question(cache), cache.live().snapshot  # in this order: a question may move on to a newer snapshot

        found, snapshot = await lane.ask(at, by=by)
        return snapshot, found

    return await _once(server, lane, holds, ask, why, views=(view,))


async def ask_all_fresh(
    server: Server,
    lane: AnyLane,
    views: Collection[View],
    ask: Callable[[], Awaitable[tuple[Snapshot | None, T]]],
    *,
    min_position: str | None,
    floor: AnswersSeen | None,
) -> T:
    """The result of a question once answers of several views count a position: each view whose source has a topic of it. They
    are then not older than those that the client has seen.

    `ask` also returns the snapshot that it answered from; None if it read nothing. Raises its errors, BadSelection, and Problem
    504 after `wait_s`.
    """
    position = Position() if min_position is None else parse_position(min_position)

    def older(snapshot: Snapshot) -> list[str]:
        return [] if floor is None else [view.name for view in views if not floor.holds(snapshot, view)]

    def holds(snapshot: Snapshot, _: datetime) -> bool:
        if older(snapshot):
            server.lane.wake()  # on an object store it polls seldom while all of the log is counted
            return False
        return not _lacking(snapshot, views, position)

    def why(snapshot: Snapshot) -> str:
        lacking, behind = _lacking(snapshot, views, position), older(snapshot)
        reasons = [f"{lacking} offsets below min_position are not counted"] if lacking or not behind else []
        reasons += [f"answers of {', '.join(behind)} would be older than the last"] if behind else []
        return "; ".join(reasons)

    return await _once(server, lane, holds, ask, why, views=views)


async def _once(
    server: Server,
    lane: AnyLane,
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
    tails = [(view.source, snapshot.of(view).tails.get(view.source.name)) for view in views]
    ends = [plain(tail.end, source) for source, tail in tails if tail is not None and tail.problem is None]
    lacking = 0
    for topic in {topic for topic, _ in position}:
        below = Position.of({place: offset for place, offset in position.items() if place[0] == topic})
        known = [end for end in ends if any(place[0] == topic for place in end)]
        lacking += max(distance(end, below) for end in known or [Position()])
    return lacking


def _standing_still(server: Server) -> str:
    """The parts without progress, in a sentence for any caller."""
    return "".join(f"; {one.brief}" for one in server.parts.states if one.red and one.part in NEEDED)
