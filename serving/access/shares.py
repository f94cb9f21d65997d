"""A bounded amount that principals share: each holds at most as much as is left over, so that there is room for the next one."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Shares:
    """`total` of something, of which one principal holds at most `most`, if that is given, and at most what is left afterwards.

    So with k principals that hold any, at least total / 2^k is free (the dynamic threshold of Choudhury and Hahne, 1998). As long
    as nobody holds anything one amount is granted whatever its size, since otherwise it never would be. For one thread.
    """

    total: int
    most: int | None = None
    _held: Counter[str] = field(default_factory=Counter, init=False, repr=False)
    _used: int = field(default=0, init=False, repr=False)

    def take(self, principal: str, amount: int = 1) -> bool:
        """Whether the principal may have that much more; `give_back` is to follow."""
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
        """Make what was granted another amount, whatever is left."""
        self._used += amount - granted
        self._held[principal] += amount - granted
        if not self._held[principal]:
            del self._held[principal]

    @property
    def used(self) -> int:
        """How much all principals hold."""
        return self._used

    def held(self, principal: str) -> int:
        """How much a principal holds."""
        return self._held[principal]
