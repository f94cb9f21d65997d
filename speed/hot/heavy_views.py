"""Which views stand aside: a view that is too heavy for its source's hot tail is left out, so that the others stay ahead."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tandem.speed.hot.hot_tail import HotTail
from tandem.speed.micro_batch.task import tables
from tandem.views.kernel.kernel import decode, partial, prepare
from tandem.views.source.offset_ranges import EMPTY

LATE_S: Final = 10.0
"""Seconds for which folds may come too late before a view stands aside: a tail that starts may have much to read."""
AGAIN_S: Final = 60.0
"""Seconds until a view that stood aside is folded again; twice as long each time, up to an hour."""
_AGAIN_MOST_S: Final = 3600.0
_HEAVY: Final = 0.25
"""The share of time or memory above which a view is heavy; without a lighter one the others would gain too little."""


@dataclass
class HeavyViews:
    """The views of a hot tail that stand aside, by fingerprint with the reason; `clock` returns monotonic seconds."""

    clock: Callable[[], float]
    why: dict[str, str] = field(default_factory=dict, init=False)
    _late_since: float | None = field(default=None, init=False)
    _was_full: bool = field(default=False, init=False)
    _until: dict[str, float] = field(default_factory=dict, init=False)
    _pause: dict[str, float] = field(default_factory=dict, init=False)

    def judge(self, tail: HotTail, *, seconds: float, late: bool) -> None:
        """Decide after a fold of `seconds` whether a view stands aside; `late`: the fold came too late."""
        now = self.clock()
        if not late:
            self.in_time()
        elif self._late_since is None:
            self._late_since = now
        elif now - self._late_since >= LATE_S:
            self._late_since = now
            self._leave_out("of the time of folds, which come too late", self._seconds(tail), seconds, now)
        # Once each time the tail fills: nothing is freed before commits pass a part.
        if tail.full and not self._was_full:
            self._leave_out("of the memory that serving.hot_mb grants", _bytes(tail), 0.0, now)
        self._was_full = tail.full
        tail.left_out = frozenset(self.why)

    def in_time(self) -> None:
        """Folds are not late now: one came in time, or the log has nothing to fold."""
        self._late_since = None

    def taken_in(self, tail: HotTail) -> bool:
        """Fold again the views that have stood aside for long enough; returns whether there are any."""
        now, self._was_full = self.clock(), self._was_full and tail.full
        due = [each for each in self.why if self._until[each] <= now]
        if not due or self._late_since is not None or tail.full:
            return False
        for fingerprint in due:
            del self.why[fingerprint]
        tail.left_out = frozenset(self.why)
        return True

    def _leave_out(self, of: str, costs: dict[str | None, float], least: float, now: float) -> None:
        """Leave out the heaviest view that the tail folds, unless it is the last one: then no other view would gain.

        `costs` also has, by None, what all views share; together they are at least `least`.
        """
        folded = [each for each in costs if each is not None and each not in self.why]
        if len(folded) < 2:
            return
        whole, heaviest = max(least, sum(costs.values())), max(folded, key=lambda each: costs[each])
        if costs[heaviest] <= _HEAVY * whole:
            return
        pause = self._pause[heaviest] = min(2 * self._pause.get(heaviest, AGAIN_S / 2), _AGAIN_MOST_S)
        self._until[heaviest] = now + pause
        self.why[heaviest] = f"it needs {costs[heaviest] / whole:.0%} {of}"

    def _seconds(self, tail: HotTail) -> dict[str | None, float]:
        """What the newest segment's records cost: each view, and by None what comes before them."""
        if not tail.segments:
            return {}
        began = self.clock()
        records = tail.segments[-1].records
        source = tail.source if tail.schemas is None else tail.schemas.ready(tail.source, records)
        events = decode(source, records).events
        prepared = prepare(tail.source, events, tail.task.generations)
        versions = tables(tail.look_up().versions, tail.views.values(), prepared.events)
        costs: dict[str | None, float] = {None: self.clock() - began}
        for fingerprint, view in tail.views.items():
            if fingerprint not in self.why:
                began = self.clock()
                partial(view, prepared.events, EMPTY, prepared.failed, versions=versions)
                costs[fingerprint] = self.clock() - began
        return costs


def _bytes(tail: HotTail) -> dict[str | None, float]:
    """The bytes of the tail: each view's states, and by None all else."""
    costs: dict[str | None, float] = dict.fromkeys(tail.views, 0.0)
    for segment in tail.segments:
        for fingerprint, states in segment.commit.partials.items():
            costs[fingerprint] += len(states)
    costs[None] = tail.nbytes - sum(costs.values())
    return costs
