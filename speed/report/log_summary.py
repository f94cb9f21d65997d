"""What the speed layer says of its micro-batches: one event of a source now and then, however many there are."""

from collections.abc import Callable
from dataclasses import dataclass, field

from infra.logs.telling import bound
from speed.report.progress import Folded


@dataclass
class Telling:
    """Sums up micro-batches and says the sums of a source at most every `every_s` seconds; `clock` gives seconds.

    The first is said at once. A source that has nothing to fold says nothing.
    """

    say: Callable[[str], object]
    every_s: float
    clock: Callable[[], float]
    _sums: dict[tuple[int, str], list[float]] = field(default_factory=dict, init=False, repr=False)
    _said: dict[tuple[int, str], float] = field(default_factory=dict, init=False, repr=False)

    def add(self, folded: Folded) -> None:
        """One more micro-batch."""
        key, now = (folded.release, folded.source), self.clock()
        sums = self._sums.setdefault(key, [0, 0, 0.0])
        for place, more in enumerate((1, folded.records, folded.seconds)):
            sums[place] += more
        if now - self._said.get(key, float("-inf")) < self.every_s:
            return
        batches, records, seconds = self._sums.pop(key)
        self._said[key] = now
        with bound(
            release=folded.release, source=folded.source, micro_batches=batches, records=records, seconds=round(seconds, 3)
        ):
            self.say("folding records")
