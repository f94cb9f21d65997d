"""Places that principals share in turn (round robin): who asks for much waits behind himself, and behind nobody for long."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class FairQueue(Generic[T]):
    """`places` that tickets of principals hold one at a time each; one principal holds at most `most`, all of them unless told.

    A place that becomes free goes to the principal whose turn it is among those that wait and hold fewer than `most`; the turn
    then passes on. So while somebody waits, every other principal is given at most one place that comes free before him. For one
    thread.
    """

    places: int
    most: int | None = None
    _held: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _waiting: dict[str, deque[T]] = field(default_factory=dict, init=False, repr=False)  # in the order of turns

    def enter(self, principal: str, ticket: T) -> bool:
        """Whether the ticket has a place at once; otherwise it waits until `leave` returns it, or it is withdrawn."""
        if self._held.total() < self.places and self._may(principal):
            self._held[principal] += 1
            return True
        self._waiting.setdefault(principal, deque()).append(ticket)
        return False

    def leave(self, principal: str) -> tuple[str, T] | None:
        """Give a place back: the principal and ticket that have it from now on, None if nobody waits for it."""
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        following = next((one for one in self._waiting if self._may(one)), None)
        if following is None:
            return None
        tickets = self._waiting.pop(following)
        ticket = tickets.popleft()
        if tickets:
            self._waiting[following] = tickets  # behind all others
        self._held[following] += 1
        return following, ticket

    def withdraw(self, principal: str, ticket: T) -> None:
        """Wait no longer with a ticket that has no place; a ticket that does not wait stays as it is."""
        tickets = self._waiting.get(principal, deque())
        if ticket in tickets:
            tickets.remove(ticket)
            if not tickets:
                del self._waiting[principal]

    def _may(self, principal: str) -> bool:
        return self.most is None or self._held[principal] < self.most
