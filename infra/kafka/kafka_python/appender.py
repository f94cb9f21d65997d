"""Appending for many callers by kafka-python: records that arrive during a request go together in the next one."""

import contextlib
import queue
import threading
from collections.abc import Sequence
from typing import Final

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.errors import NoBroker, NoTopic
from tandem.infra.kafka.kafka_python.client import connect
from tandem.infra.kafka.kafka_python.produce import Log
from tandem.infra.kafka.outcome import NotAppended, Outcome, Told
from tandem.infra.kafka.record import Record

_CHUNK_BYTES: Final = 800_000
_Batch = tuple[str, Sequence[Record], Told]


class PythonAppender:
    """A `kafka.Appender` by kafka-python: one request in flight at a time; a request of unknown outcome is not repeated."""

    def __init__(self, address: Address, *, seconds: float) -> None:
        self.address = address
        self._seconds = seconds
        self._queue: queue.SimpleQueue[_Batch | None] = queue.SimpleQueue()
        self._log: Log | None = None
        self._thread = threading.Thread(target=self._work, name="appending", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> bool:
        """Always false: it has no state at the broker."""
        return False

    def append(self, topic: str, records: Sequence[Record], told: Told) -> None:
        """As `kafka.Appender` has it."""
        self._queue.put((topic, records, told))

    def close(self) -> None:
        """As `kafka.Appender` has it."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        ended = False
        while not ended:
            taken, size = list[_Batch](), 0
            with contextlib.suppress(queue.Empty):
                while size < _CHUNK_BYTES:
                    one = self._queue.get(block=not taken)
                    if one is None:
                        ended = True
                        break
                    taken.append(one)
                    size += sum(record.size for record in one[1])
            if taken:
                self._append(taken)

    def _append(self, taken: Sequence[_Batch]) -> None:
        try:
            if self._log is None:
                self._log = Log(connect(self.address), self._seconds)
            places = [[self._log.place(topic, record.key) for record in records] for topic, records, _ in taken]
        except (NoBroker, NoTopic) as error:
            for _, records, told in taken:
                told([NotAppended(str(error), sure=True)] * len(records))
            return
        together: dict[tuple[str, int], list[Record]] = {}
        for where, (_, records, _told) in zip(places, taken, strict=True):
            for place, record in zip(where, records, strict=True):
                # Its timestamp is the time of its sending.
                together.setdefault(place, []).append(Record(0, record.key, record.value, record.headers))
        outcomes = {place: iter(found) for place, found in self._log.append(together).items()}
        self._log.turn()
        for where, (_, _records, told) in zip(places, taken, strict=True):
            found: list[Outcome] = [next(outcomes[place]) for place in where]
            told(found)
