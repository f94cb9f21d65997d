"""Appending by kafka-python: one request at a time; a request of unknown outcome is never sent again.

kafka-python's own producer is not used, because

* its idempotent mode does not recover from a broker that paused longer than the delivery timeout,
* without idempotence it continues with later batches after a batch of unknown outcome,
* it refuses a header without a value, and a record with neither key nor value.

Its encoder and its connections have none of these limits.
"""

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kafka.errors import (
    BrokerResponseError,
    KafkaError,
    MessageSizeTooLargeError,
    NetworkExceptionError,
    NotEnoughReplicasAfterAppendError,
    RecordListTooLargeError,
    RequestTimedOutError,
    UnknownError,
    for_code,
)
from kafka.protocol.producer import ProduceRequest
from kafka.record import MemoryRecordsBuilder

from tandem.infra.kafka.kafka_python.client import Connection
from tandem.infra.kafka.kafka_python.retriable import heals, reason
from tandem.infra.kafka.kafka_python.topics import topic
from tandem.infra.kafka.outcome import Appended, NotAppended, Outcome
from tandem.infra.kafka.partitioner import partition_of
from tandem.infra.kafka.record import Record

_MAGIC: Final = 2
_ANY_SIZE: Final = 1 << 31
_ALL_REPLICAS: Final = -1
# Later versions name topics by their ids.
_VERSION: Final = 9
_PAUSE_S: Final = 0.1
_TOO_LARGE: Final = (MessageSizeTooLargeError, RecordListTooLargeError)
# The broker answers with an error, but the record may be in its log.
_UNKNOWN: Final = (RequestTimedOutError, NetworkExceptionError, NotEnoughReplicasAfterAppendError, UnknownError)

_Place = tuple[str, int]


@dataclass
class Log:
    """Topics to append to. Their leaders are requested once, and again after a refusal. For one thread.

    A record that is not acknowledged within `seconds` is given up.
    """

    connection: Connection
    seconds: float
    _partitions: dict[str, int] = field(default_factory=dict)
    _sticky: dict[str, int] = field(default_factory=dict)

    def place(self, name: str, key: bytes | None) -> _Place:
        """The partition of a record: by its key; without a key the same one until `turn`. Raises NoBroker, NoTopic."""
        if name not in self._partitions:
            self._partitions[name] = topic(self.connection, name).partitions
        if key is not None:
            return name, partition_of(key, self._partitions[name])
        if name not in self._sticky:
            self._sticky[name] = random.randrange(self._partitions[name])  # noqa: S311 - any partition will do
        return name, self._sticky[name]

    def turn(self) -> None:
        """Choose another partition for records without a key."""
        self._sticky.clear()

    def append(self, records: Mapping[_Place, Sequence[Record]]) -> dict[_Place, list[Outcome]]:
        """Append records and return their outcomes: the records of a partition are one batch, in order, unless it is too large.

        A batch that is certainly not in the log is retried while that may help and time is left; any other is sent once. A
        record's milliseconds are its timestamp, now if they are 0. Takes `seconds`, or little more.
        """
        deadline = time.monotonic() + self.seconds
        outcomes: dict[_Place, list[Outcome]] = {}
        left: dict[_Place, Sequence[Record]] = {place: batch for place, batch in records.items() if batch}
        pause = _PAUSE_S
        while left:
            again: dict[_Place, Sequence[Record]] = {}
            for place, told in self._attempt(left, deadline).items():
                batch = left[place]
                if isinstance(told, int):
                    outcomes[place] = [Appended(place[1], told + number) for number in range(len(batch))]
                elif isinstance(told, _TOO_LARGE) and len(batch) > 1:
                    outcomes[place] = self._halved(place, batch)
                elif isinstance(told, _NotHandedOver | BrokerResponseError) and _again(told) and time.monotonic() < deadline:
                    again[place] = batch
                else:
                    outcomes[place] = [NotAppended(_words(told), sure=_sure(told))] * len(batch)
            left = again
            if left:
                time.sleep(min(pause, max(0.0, deadline - time.monotonic())))
                pause = min(2 * pause, 1.0)
        return outcomes

    def _halved(self, place: _Place, batch: Sequence[Record]) -> list[Outcome]:
        """Send the halves of a batch that is too large: the second one only if the outcome of the first is known."""
        half = len(batch) // 2
        first = self.append({place: batch[:half]})[place]
        if any(isinstance(one, NotAppended) and not one.sure for one in first):
            return [
                *first,
                *[NotAppended("not sent, because the outcome of earlier records is unknown", sure=True)] * (len(batch) - half),
            ]
        return [*first, *self.append({place: batch[half:]})[place]]

    def _attempt(self, records: Mapping[_Place, Sequence[Record]], deadline: float) -> dict[_Place, "int | Exception"]:
        """The first offset of each batch, or the error."""
        admin = self.connection.admin
        built = {place: _built(batch) for place, batch in records.items()}
        try:
            found: dict[_Place, int | Exception] = admin._manager.run(_produce, admin, built, deadline)  # noqa: SLF001 - no other way to it
        except KafkaError as error:
            return dict.fromkeys(records, _NotHandedOver(error))
        return found


class _NotHandedOver(Exception):
    """No request was sent."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(reason(cause))
        self.cause = cause


def _built(batch: Sequence[Record]) -> bytes:
    now, builder = int(time.time() * 1000), MemoryRecordsBuilder(_MAGIC, 0, _ANY_SIZE)
    for record in batch:
        builder.append(record.milliseconds or now, record.key, record.value, record.headers)
    builder.close()
    found: bytes = builder.buffer()
    return found


async def _produce(admin: Any, batches: Mapping[_Place, bytes], deadline: float) -> dict[_Place, "int | Exception"]:
    """Send each leader its batches in one request; runs in the client's thread."""
    told = await admin._get_cluster_metadata({name for name, _ in batches})  # noqa: SLF001 - as above
    leaders: dict[int, list[_Place]] = {}
    found: dict[_Place, int | Exception] = {}
    for described in told["topics"]:
        if described["error_code"]:
            error = for_code(described["error_code"])(f"topic '{described['name']}'")
            found |= {place: _NotHandedOver(error) for place in batches if place[0] == described["name"]}
        for partition in described["partitions"]:
            if (place := (described["name"], partition["partition_index"])) in batches:
                leaders.setdefault(partition["leader_id"], []).append(place)
    under_way = []
    for leader, places in leaders.items():
        try:
            connection = await admin._manager.get_connection(leader)  # noqa: SLF001 - as above
        except KafkaError as error:
            found |= {place: _NotHandedOver(error) for place in places}
            continue
        milliseconds = max(1, int((deadline - time.monotonic()) * 1000))
        request = _request(places, batches, milliseconds)
        under_way.append((places, connection.send_request(request, request_timeout_ms=milliseconds)))
    for places, future in under_way:
        try:
            response = await future
        except KafkaError as error:
            found |= dict.fromkeys(places, error)
            continue
        for topic_response in response.responses:
            for one in topic_response.partition_responses:
                place = (topic_response.name, one.index)
                found[place] = for_code(one.error_code)(one.error_message) if one.error_code else int(one.base_offset)
    # A partition without a leader, or a partition that the topic does not have.
    missing = for_code(5)
    return {
        place: found[place] if place in found else _NotHandedOver(missing("the partition has no leader")) for place in batches
    }


def _request(places: Sequence[_Place], batches: Mapping[_Place, bytes], milliseconds: int) -> ProduceRequest:
    topic_data = ProduceRequest.TopicProduceData
    partition_data = topic_data.PartitionProduceData
    by_topic: dict[str, list[Any]] = {}
    for name, number in places:
        by_topic.setdefault(name, []).append(partition_data(index=number, records=batches[name, number]))
    return ProduceRequest(
        transactional_id=None,
        acks=_ALL_REPLICAS,
        timeout_ms=milliseconds,
        topic_data=[topic_data(name=name, partition_data=parts) for name, parts in by_topic.items()],
        max_version=_VERSION,
    )


def _sure(told: Exception) -> bool:
    """Whether a record is certainly not in the log: nothing was sent, or the broker refused the only attempt."""
    return isinstance(told, _NotHandedOver) or (isinstance(told, BrokerResponseError) and not isinstance(told, _UNKNOWN))


def _again(told: Exception) -> bool:
    """Whether the batch is certainly not in the log, and a retry may succeed."""
    cause = told.cause if isinstance(told, _NotHandedOver) else told
    return _sure(told) and isinstance(cause, KafkaError) and heals(cause)


def _words(told: Exception) -> str:
    said = reason(told)
    return said if _sure(told) else f"{said}; whether it is in the log is unknown"
