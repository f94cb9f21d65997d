"""Log events on micro-batches: sums for each source, at most one event in a period."""

from collections.abc import Callable
from dataclasses import dataclass, field

from tandem.infra.logs.telling import bound
from tandem.speed.report.progress import Folded


@dataclass
class Telling:
    """Sums up micro-batches and logs the sums of a source at most every `every_s` seconds; `clock` returns seconds.

    The first micro-batch is logged at once. A source without records logs nothing.
    """

    say: Callable[[str], object]
    every_s: float
    clock: Callable[[], float]
    _sums: dict[tuple[int, str], list[float]] = field(default_factory=dict, init=False, repr=False)
    _said: dict[tuple[int, str], float] = field(default_factory=dict, init=False, repr=False)

    def add(self, folded: Folded) -> None:
        """Add a micro-batch."""
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
