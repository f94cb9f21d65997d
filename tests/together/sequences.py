"""Answers about sequences, by trying every choice of events: plain Python over lists of events in order."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import timedelta
from typing import Any

Happened = Mapping[str, Any]
Condition = Callable[[Happened], bool | None]


def furthest(events: Sequence[Happened], steps: Sequence[Condition], within: timedelta) -> int:
    """How many steps the events of one user reach at most, in order, each at most `within` after the first one."""

    def reach(number: int, after: int, start: Any) -> int:
        if number == len(steps):
            return number
        choices = [
            place
            for place in range(after, len(events))
            if steps[number](events[place]) and (start is None or events[place]["at"] <= start + within)
        ]
        return max((reach(number + 1, place + 1, start or events[place]["at"]) for place in choices), default=number)

    return reach(0, 0, None)


def funnel_of(
    events: Sequence[Happened], steps: Sequence[Condition], within: timedelta, by: Callable[[Happened], Hashable], limit: int
) -> list[int] | None:
    """By step the number of users that reached it, of events in order; None if more than `limit` match a step."""
    matching = [event for event in events if by(event) is not None and any(step(event) for step in steps)]
    if len(matching) > limit:
        return None
    users = {by(event) for event in matching}
    reached = [furthest([event for event in matching if by(event) == user], steps, within) for user in users]
    return [sum(each >= number for each in reached) for number in range(1, len(steps) + 1)]
