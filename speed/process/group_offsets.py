"""The positions of the live release as offsets of consumer groups, for eyes and for exporters of lag; nothing reads them back."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Final

from tandem.infra import kafka
from tandem.infra.kafka import BrokerConnection
from tandem.infra.kafka.source_topics import topics_of
from tandem.ledger.log.positions import Position
from tandem.views.source.source import Source

_EVERY_S: Final = 5.0
_AGAIN_S: Final = 3_600.0
"""Kafka forgets the offsets of a group without members after a time, seven days by default."""


def group_of(prefix: str, source: str) -> str:
    """The name of a source's group; several sources may read one topic, and a group has one offset for a partition."""
    return f"{prefix}.{source}"


@dataclass
class GroupOffsets:
    """Commits each source's position to its group whenever it has moved, in a thread, so that a slow broker delays nobody.

    `positions` returns what is counted, by source. A failure is reported once by `warn`, and tried again.
    """

    connection: BrokerConnection
    prefix: str
    positions: Callable[[], Mapping[str, tuple[Source, Position]]]
    warn: Callable[[str], None]
    _committed: dict[str, tuple[Position, float]] = field(default_factory=dict, init=False, repr=False)
    _failures: dict[str, str] = field(default_factory=dict, init=False, repr=False)
    _stop: Event = field(default_factory=Event, init=False, repr=False)

    def start(self) -> None:
        """Start the thread, which ends with the process at the latest; returns at once."""
        if self.prefix:
            Thread(target=self._run, name="group offsets", daemon=True).start()

    def stop(self) -> None:
        """Ask the thread to end; returns at once."""
        self._stop.set()

    def commit(self) -> None:
        """Commit the positions that have moved since they were committed, or that Kafka may soon forget."""
        for name, (source, position) in self.positions().items():
            before, at = self._committed.get(name, (None, 0.0))
            if position == before and time.monotonic() - at < _AGAIN_S:
                continue
            try:
                topics = topics_of(self.connection, source)
                kafka.commit_offsets(self.connection, group_of(self.prefix, name), topics, position)
            except (kafka.NoBroker, kafka.NoTopic) as error:
                if self._failures.get(name) != str(error):
                    self.warn(f"the position of source '{name}' is not shown to Kafka's tools: {error}")
                self._failures[name] = str(error)
            else:
                self._failures.pop(name, None)
                self._committed[name] = position, time.monotonic()

    def _run(self) -> None:
        while not self._stop.wait(_EVERY_S):
            self.commit()
