"""A bounded amount that principals share: each may hold at most as much as stays free, so that there is room for the next."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Shares:
    """`total` units, of which one principal holds at most `most`, if that is given, and at most as much as stays free
    afterwards.

    So if k principals hold units, at least total / 2^k are free (the dynamic threshold of Choudhury and Hahne, 1998). While no
    principal holds any, one amount of any size is granted: otherwise it never would be. For one thread.
    """

    total: int
    most: int | None = None
    _held: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _used: int = field(default=0, init=False, repr=False)

    def take(self, principal: str, amount: int = 1) -> bool:
        """Whether the principal is granted this amount; if so, `give_back` must follow."""
        held = self._held[principal] + amount
        if self._used and (held > self.total - self._used - amount or (self.most is not None and held > self.most)):
            return False
        self._held[principal] = held
        self._used += amount
        return True

    def give_back(self, principal: str, amount: int = 1) -> None:
        """Return what was granted."""
        self.resize(principal, amount, 0)

    def resize(self, principal: str, granted: int, amount: int) -> None:
        """Change an amount that was granted, whatever is free."""
        self._used += amount - granted
        self._held[principal] += amount - granted
        if not self._held[principal]:
            del self._held[principal]

    @property
    def used(self) -> int:
        """The amount that all principals hold."""
        return self._used

    def held(self, principal: str) -> int:
        """The amount that a principal holds."""
        return self._held[principal]
