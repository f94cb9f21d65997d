"""The topic as kafka-python reads it, for the oracle."""

import time
from collections import defaultdict
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from kafka import KafkaConsumer, TopicPartition

from tandem.infra.kafka import broker
from tandem.infra.kafka.kafka_python import client, records
from tandem.infra.settings import Settings
from tests.campaign.answers.oracle import Position, Record


@dataclass
class Log:
    """All records that were read so far, by partition: the topic keeps every record, so an offset is an index."""

    settings: Settings
    topic: str
    read: defaultdict[int, list[Record]] = field(default_factory=lambda: defaultdict(list))
    _lock: Lock = field(default_factory=Lock)

    def records(self, position: Position, *, seconds: float) -> list[Record] | None:
        """The records below a position; None if the broker does not give them in time, as while it is being restarted."""
        deadline = time.monotonic() + seconds
        with self._lock:
            while not self._reaches(position):
                if time.monotonic() > deadline:
                    return None
                try:
                    self._read_on(position, deadline)
                except Exception:  # noqa: BLE001 - the broker is being killed; whatever the client says of it
                    time.sleep(0.5)
            return [record for number, read in sorted(self.read.items()) for record in read[: position.get(number, 0)]]

    def end(self) -> dict[int, int]:
        """Where the log ends now. Raises what the client raises."""
        consumer = self._consumer()
        try:
            found: dict[Any, int] = consumer.end_offsets(self._places(consumer))
        finally:
            consumer.close()
        return {place.partition: offset for place, offset in found.items()}

    def _reaches(self, position: Position) -> bool:
        return all(len(self.read[number]) >= offset for number, offset in position.items())

    def _read_on(self, position: Position, deadline: float) -> None:
        consumer = self._consumer()
        try:
            places = self._places(consumer)
            consumer.assign(places)
            for place in places:
                consumer.seek(place, len(self.read[place.partition]))
            while not self._reaches(position) and time.monotonic() < deadline:
                for batch in consumer.poll(500).values():
                    for record in batch:
                        read = self.read[record.partition]
                        if record.offset != len(read):
                            raise LookupError(f"offset {record.offset} follows {len(read) - 1} of partition {record.partition}")
                        read.append(Record(record.partition, record.offset, record.value))
        finally:
            consumer.close()

    def _places(self, consumer: Any) -> list[Any]:
        return [TopicPartition(self.topic, number) for number in sorted(consumer.partitions_for_topic(self.topic))]

    def _consumer(self) -> Any:
        records.provide_codecs()
        address = broker.address(self.settings)
        return KafkaConsumer(**client.configuration(address), enable_auto_commit=False, auto_offset_reset="none")
