"""Whether answers count the whole log: then a poll of the tables can find only a publication, and can wait.

A request to the broker costs nothing, one to an object store costs money.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.settings import Settings
from tandem.ledger.log.positions import Position
from tandem.serving.memory.store import Pinned

_PATIENCE_S: Final = 1
"""Seconds for which polls of the tables may wait for a broker."""
_AGAIN_S: Final = 30.0
"""Seconds without a request after the broker did not answer, or a topic was missing."""


@dataclass
class WholeLog:
    """Polls the end of the log; for one thread. `clock` returns monotonic seconds."""

    settings: Settings
    clock: Callable[[], float]
    _connection: kafka.BrokerConnection | None = field(default=None, init=False, repr=False)
    _not_before: float = field(default=float("-inf"), init=False)

    def counted(self, pinned: Pinned) -> bool:
        """Whether the answers of every view at a snapshot count all records of its source.

        False if the broker does not answer.
        """
        snapshot, views = pinned.snapshot, pinned.project.views.values()
        if not snapshot.tiled or self.clock() < self._not_before:
            return False
        try:
            if self._connection is None:
                self._connection = kafka.connect(replace(broker.address(self.settings), timeout_s=_PATIENCE_S))
            connection = self._connection
            sources = {view.source.name: view.source for view in views}
            ends = {
                name: Position.of(kafka.ends(connection, kafka.topics(connection, source.topics)))
                for name, source in sources.items()
            }
            return all(ends[view.source.name].at_or_below(snapshot.of(view).positions[view.source.name]) for view in views)
        except (kafka.NoBroker, kafka.NoTopic):
            self._connection, self._not_before = None, self.clock() + _AGAIN_S
            return False
