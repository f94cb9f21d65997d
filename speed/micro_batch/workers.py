"""What Spark's workers keep between the micro-batches of one source: the words of known identities, 8 bytes each."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from tandem.speed.dedup.known_words import KnownWords

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast
    from pyspark.sql import DataFrame

    from tandem.speed.dedup.keys import Words

_WITH_TASKS: Final = 8192
"""Words of a run that travels with the tasks: it is too small for a broadcast of its own."""


@dataclass
class Workers:
    """The runs of words that workers have, and what tasks are to hand back.

    A worker keeps a broadcast run as long as its tasks name it, so it has the words of one source at a time. The dedup window
    merges runs level by level, so each of N words travels about log2 N times to each worker. Spark's driver keeps each run in its
    block manager, and on disk, until it is withdrawn.

    `hand_back` is whether tasks hand back the events that they fold. It costs time and memory, so tasks do it only after a
    micro-batch in which several tasks read the same identity.
    """

    hand_back: bool = False
    _sent: "dict[int, tuple[Words, Broadcast[Words]]]" = field(default_factory=dict, repr=False)

    def known(self, records: "DataFrame", known: KnownWords) -> KnownWords:
        """These runs for the tasks of the next job over these records; runs that they do not name are withdrawn."""
        runs = [run if isinstance(run, np.ndarray) else run.value for run in known.runs]
        large = {id(run): run for run in runs if len(run) > _WITH_TASKS}
        self._withdraw(self._sent.keys() - large.keys())
        for name, run in large.items():
            if name not in self._sent:
                # The run is kept beside its broadcast, so that no other run can get its id.
                self._sent[name] = run, records.sparkSession.sparkContext.broadcast(run)
        return KnownWords(tuple(self._sent[id(run)][1] if id(run) in large else run for run in runs))

    def close(self) -> None:
        """Withdraw all runs; no job may be running."""
        self._withdraw(set(self._sent))

    def _withdraw(self, names: Iterable[int]) -> None:
        for name in names:
            self._sent.pop(name)[1].destroy(blocking=False)
