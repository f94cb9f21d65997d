"""Whether answers count the whole log: then a poll of the tables finds a publication at most, and can wait.

A request to the broker costs nothing, one to an object store costs money.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from infra import kafka
from infra.kafka import broker
from infra.settings import Settings
from ledger.log.positions import Position
from serving.memory.store import Pinned

_PATIENCE_S: Final = 1
"""Seconds for which polls of the tables may wait for a broker."""
_AGAIN_S: Final = 30.0
"""Seconds for which a broker that did not answer is left alone."""


@dataclass
class WholeLog:
    """Polls the end of the log; for one thread. `clock` returns monotonic seconds."""

    settings: Settings
    clock: Callable[[], float]
    _connection: kafka.Connection | None = field(default=None, init=False, repr=False)
    _not_before: float = field(default=float("-inf"), init=False)

    def counted(self, pinned: Pinned) -> bool:
        """Whether the answers at a snapshot count all records of all sources; False if the broker does not answer."""
        snapshot, sources = pinned.snapshot, pinned.project.sources
        if not snapshot.tiled or self.clock() < self._not_before:
            return False
        try:
            if self._connection is None:
                self._connection = kafka.connect(replace(broker.address(self.settings), timeout_s=_PATIENCE_S))
            connection = self._connection
            return all(
                Position.of(kafka.ends(connection, kafka.topics(connection, sources[name].topics))).at_or_below(end)
                for name, end in snapshot.positions.items()
            )
        except (kafka.NoBroker, kafka.NoTopic):
            self._connection, self._not_before = None, self.clock() + _AGAIN_S
            return False
