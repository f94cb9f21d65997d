"""Slots that principals share round robin, so that a principal with many requests delays only itself."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class FairQueue(Generic[T]):
    """`places` slots, each held by one ticket of a principal; one principal holds at most `most`, all of them by default.

    A slot that becomes free goes to the next principal in turn that waits and holds fewer than `most`. So while a principal
    waits, every other principal gets at most one slot before it. For one thread.
    """

    places: int
    most: int | None = None
    _held: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _waiting: dict[str, deque[T]] = field(default_factory=dict, init=False, repr=False)  # in the order of turns

    def enter(self, principal: str, ticket: T) -> bool:
        """Whether the ticket gets a slot at once; otherwise it waits until `leave` returns it, or it is withdrawn."""
        if self._held.total() < self.places and self._may(principal):
            self._held[principal] += 1
            return True
        self._waiting.setdefault(principal, deque()).append(ticket)
        return False

    def leave(self, principal: str) -> tuple[str, T] | None:
        """Give a slot back. Returns the principal and ticket that hold it from now on, None if no ticket waits for it."""
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
        """Stop waiting with a ticket that has no slot; other tickets are not affected."""
        tickets = self._waiting.get(principal, deque())
        if ticket in tickets:
            tickets.remove(ticket)
            if not tickets:
                del self._waiting[principal]

    def _may(self, principal: str) -> bool:
        return self.most is None or self._held[principal] < self.most
