"""Sending by kafka-python: one chunk at a time, the next one only when the last is fully acknowledged."""

import time
from typing import Final, Self

from tandem.infra.kafka.address import Address
from tandem.infra.kafka.errors import NotSent
from tandem.infra.kafka.kafka_python.client import connect
from tandem.infra.kafka.kafka_python.produce import Log
from tandem.infra.kafka.outcome import Appended, Outcome
from tandem.infra.kafka.record import Record

DELIVERY_S: Final = 30
"""Seconds after which a record without an acknowledgement is given up."""

_CHUNK_BYTES: Final = 800_000
_CHUNK_RECORDS: Final = 10_000
_AROUND: Final = 40
"""The most bytes that Kafka adds to a record."""
_LINGER_S: Final = 0.02


class PythonSender:
    """A `kafka.Sender` by kafka-python: at most one chunk is in flight, and after an unacknowledged chunk none is sent.

    A record waits for others that arrive within a fiftieth of a second; `poll` and `finish` send waiting records.
    """

    def __init__(self, address: Address, *, most_bytes: int) -> None:
        self.acknowledged = 0
        self.positions: dict[tuple[str, int], int] = {}
        self._address, self._most = address, most_bytes
        self._log = Log(connect(address), DELIVERY_S)
        self._waiting: dict[tuple[str, int], list[Record]] = {}
        self._bytes = self._records = 0
        self._last = self._oldest = 0.0
        self._failed = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: object) -> None:
        if kind is None:
            self.finish()

    def send(self, topic: str, value: bytes | None, key: bytes | None = None) -> None:
        """As `kafka.Sender` has it."""
        self._send(self._log.place(topic, key), Record(0, key, value))

    def send_as(self, topic: str, partition: int, record: Record) -> None:
        """As `kafka.Sender` has it."""
        self._send((topic, partition), record)

    def poll(self) -> None:
        """As `kafka.Sender` has it."""
        self.finish()

    def finish(self) -> None:
        """As `kafka.Sender` has it."""
        self._raise()
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            self._bytes = self._records = 0
            self._told(self._log.append(waiting))
            self._log.turn()

    def _send(self, place: tuple[str, int], record: Record) -> None:
        self._raise()
        size = record.size + _AROUND
        if size > self._most:
            self.finish()
            raise NotSent(f"{self._complaint('Message size too large')}; the record has {record.size} bytes")
        if self._bytes + size > _CHUNK_BYTES:
            self.finish()
        now = time.monotonic()
        self._oldest = self._oldest if self._waiting else now
        alone, self._last = now - self._last > _LINGER_S, now
        self._waiting.setdefault(place, []).append(record)
        self._bytes += size
        self._records += 1
        if alone or self._records >= _CHUNK_RECORDS or now - self._oldest > _LINGER_S:
            self.finish()

    def _told(self, outcomes: dict[tuple[str, int], list[Outcome]]) -> None:
        surely_not, unknown, why = 0, 0, ""
        for (topic, number), told in outcomes.items():
            for outcome in told:
                if isinstance(outcome, Appended):
                    self.acknowledged += 1
                    self.positions[topic, number] = (outcome.offset or 0) + 1
                else:
                    surely_not, unknown = surely_not + outcome.sure, unknown + (not outcome.sure)
                    why = why or outcome.why
        if why:
            counted = f"; {surely_not} are certainly not in the log" if surely_not else ""
            if unknown:
                counted += f"; {unknown} may be in the log, and are not sent again: compare the topic's end offsets"
            self._failed = self._complaint(why) + counted
        self._raise()

    def _complaint(self, why: str) -> str:
        return f"Kafka at {self._address.bootstrap} did not accept a record: {why}; {self.acknowledged} were acknowledged"

    def _raise(self) -> None:
        if self._failed:
            raise NotSent(self._failed)
