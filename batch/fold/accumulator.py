"""Accumulate partials of a view: merged as they arrive, so that memory grows with the merged states only."""

from dataclasses import dataclass, field
from typing import Final

from tandem.views.kernel import kernel
from tandem.views.kernel.kernel import Partial
from tandem.views.view import View

_MERGE_ROWS: Final = 1 << 18  # States waiting to be merged: fewer merges cost less, more of them hold more memory.


@dataclass
class Accumulator:
    """Partials of one view, merged often enough that they take little more memory than their merged states."""

    view: View
    rejected: dict[str, int] = field(default_factory=dict)
    _partials: list[Partial] = field(default_factory=list)
    _merged: int = 0

    def add(self, one: Partial) -> None:
        """Add a partial."""
        self._partials.append(one)
        waiting = sum(held.states.num_rows for held in self._partials) - self._merged
        if waiting > max(_MERGE_ROWS, self._merged):
            self._merge()

    @property
    def bytes(self) -> int:
        """The memory of the states."""
        return sum(held.states.nbytes for held in self._partials)

    def take(self) -> Partial:
        """Take all partials, merged into one; the accumulator is empty afterwards."""
        self._merge()
        (one,) = self._partials
        for reason, count in one.rejected.items():
            self.rejected[reason] = self.rejected.get(reason, 0) + count
        self._partials, self._merged = [], 0
        return one

    def _merge(self) -> None:
        if len(self._partials) == 1:
            return  # one partial already has one row per key and window, and KLL sketches change randomly at each merge
        self._partials = [kernel.merge(self.view, self._partials)]
        self._merged = self._partials[0].states.num_rows
