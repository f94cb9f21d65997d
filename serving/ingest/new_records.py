"""The records that are written for a source's values, with the key and headers by which the source selects its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from tandem.infra.kafka import MOST_BYTES, Record
from tandem.views.decode import decode
from tandem.views.decode.idempotency import is_key
from tandem.views.decode.sample_records import as_records
from tandem.views.decode.schema_ids import missing_schemas, needs_registry
from tandem.views.errors import TandemError, listed
from tandem.views.project.partition_key import record_keys
from tandem.views.source.event import event_fields
from tandem.views.source.formats.schema_registry import SchemaKey
from tandem.views.source.record_filter import ByHeader, record_filter_name
from tandem.views.source.source import IDEMPOTENCY_HEADER, IDEMPOTENCY_KEY, REJECTED_INDEX, Source


@dataclass(frozen=True)
class Fault:
    """Why a record of a request, counted from 0, or an event of its list, is not an event of the source: the decoder's reason
    and detail.
    """

    record: int
    reason: str
    detail: str


@dataclass(frozen=True)
class Reading:
    """The keys of records, in order, and the faults of those that are not events."""

    keys: list[bytes | None]
    faults: list[Fault]


def read(source: Source, topic: str, values: Sequence[bytes], headers: Sequence[Mapping[str, bytes]], at: datetime) -> Reading:
    """How readers of the log will decode values, of at least one, which they received `at`.

    Only offsets and other positions, which a project's own function may read, are not known yet.
    """
    keys, numbers = record_keys(source, values), range(len(values))
    given = as_records(source, values, topic_id=topic, offsets=numbers, at=at, keys=keys, headers=headers)
    decoded = decode(source, given)
    faults = [_fault(reject) for reject in decoded.rejects.to_pylist()]
    if decoded.others:
        known = {*decoded.events["_offset"].to_pylist(), *(fault.record for fault in faults)}
        reasons = [] if source.record_filter is None else [f"not of {record_filter_name(source.record_filter)}"]
        reasons += [] if source.history_until is None else [f"before history_until, {source.history_until.isoformat()}"]
        said = f"{' or '.join(reasons)}, which selects the source's records"
        faults += [Fault(number, "other", said) for number in numbers if number not in known]
    return Reading(keys, sorted(faults, key=lambda fault: fault.record))


def _fault(reject: Mapping[str, Any]) -> Fault:
    index = reject.get(REJECTED_INDEX.name)
    event = "" if index is None else f"event {index}: "
    return Fault(reject["offset"], reject["reason"], f"{event}{reject['detail']}")


_MOST: Final = MOST_BYTES - 1_000
"""Bytes of key, value and headers of a record: a broker counts a few around them."""
_MOST_KEY: Final = 200
_SHOWN: Final = 100


class CannotMean(TandemError, code="events-parameter-invalid"):
    """The request gives a parameter that the source does not support, or lacks one."""


class TooLarge(TandemError, code="record-too-large"):
    """A record has more bytes than Kafka accepts."""


class NoEvents(TandemError, code="events-invalid"):
    """Some records are not events of the source; `faults` are the first hundred, in order."""

    def __init__(self, source: Source, faults: Sequence[Fault], records: int) -> None:
        first = faults[0]
        faulty = len({fault.record for fault in faults})
        others = f", nor are {faulty - 1} others" if faulty > 1 else ""
        fields = ", ".join(field.key for field in event_fields(source.event))
        super().__init__(
            f"record {first.record} of {records} is not an event of source {source.name!r}{others}: {first.reason}: "
            f"{first.detail}; nothing is written; a {source.event.__name__} has {fields}; see /sources/{source.name}"
        )
        self.faults = tuple(faults[:_SHOWN])


@dataclass(frozen=True)
class IngestTarget:
    """Where the records of a request go, and the headers of all of them."""

    source: Source
    topic: str
    headers: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def knows_copies(self) -> bool:
        """Whether a repeated request counts once."""
        identity = self.source.identity
        return IDEMPOTENCY_HEADER in self.headers if IDEMPOTENCY_KEY in identity else bool(identity)


def target(source: Source, *, topic: str | None, kind: str | None, idempotency_key: str | None) -> IngestTarget:
    """Where records of a source go: to its only topic or the named one, with a kind and an idempotency key.

    Raises CannotMean for a parameter that the source does not have or lacks, and for a key that its identity does not contain.
    """
    if topic is None and len(source.topics) == 1:
        topic = source.topics[0]
    if topic is None or not source.reads(topic):
        wrong = (
            f"source {source.name!r} has several topics" if topic is None else f"source {source.name!r} has no topic {topic!r}"
        )
        topics = listed(topic or "", source.topics) if source.pattern is None else f"those that match {source.pattern}"
        raise CannotMean(f"{wrong}: choose one by topic=; topics: {topics}")
    return IngestTarget(source, topic, _kind(source, kind) | _key(source, idempotency_key))


def _kind(source: Source, kind: str | None) -> dict[str, bytes]:
    by_header = source.record_filter
    if not isinstance(by_header, ByHeader):
        if kind is not None:
            raise CannotMean(f"kind={kind!r}: source {source.name!r} does not select records by a header; leave kind out")
        return {}
    if kind is None and len(by_header.values) == 1:
        kind = by_header.values[0]
    if kind is None or kind not in by_header.values:
        wrong = "its records are of several kinds" if kind is None else f"kind={kind!r} is not its own"
        raise CannotMean(
            f"source {source.name!r} selects records by their header {by_header.name!r}, and {wrong}: choose one with "
            f"kind=; kinds: {listed(kind or '', by_header.values)}"
        )
    return {by_header.name: kind.encode()}


def _key(source: Source, key: str | None) -> dict[str, bytes]:
    if key is None:
        return {}
    if IDEMPOTENCY_KEY not in source.identity:
        known = f"its identity is {', '.join(source.identity)}" if source.identity else "every record counts"
        raise CannotMean(
            f"source {source.name!r} does not use idempotency keys: {known}; leave Idempotency-Key out, or add "
            f"{IDEMPOTENCY_KEY!r} to the identity of the source"
        )
    if len(key) > _MOST_KEY or not is_key(key.encode()):
        raise CannotMean(
            f"Idempotency-Key has {len(key)} characters; expected 1 to {_MOST_KEY} visible ASCII characters, such as a UUID"
        )
    return {IDEMPOTENCY_HEADER: key.encode()}


def missing_of(to: IngestTarget, values: Sequence[bytes], *, at: datetime) -> list[SchemaKey]:
    """The schemas of registries that values name, of at least one, and that the source does not have yet."""
    if not needs_registry(to.source):
        return []
    return missing_schemas(to.source, as_records(to.source, values, topic_id=to.topic, offsets=range(len(values)), at=at))


def records_of(to: IngestTarget, values: Sequence[bytes], *, at: datetime) -> list[Record]:
    """The records for values, of at least one. Each has the source's key and, with an idempotency key, the number of the record:
    `KEY/0`.

    They are decoded as readers of the log will, received `at`. Raises NoEvents and TooLarge; then nothing may be written.
    """
    headers = [_numbered(to.headers, number) for number in range(len(values))]
    reading = read(to.source, to.topic, values, headers, at)
    records = [Record(0, key, value, tuple(of.items())) for key, value, of in zip(reading.keys, values, headers, strict=True)]
    for number, record in enumerate(records):
        size = len(record.value or b"") + len(record.key or b"") + sum(len(n) + len(v or b"") for n, v in record.headers)
        if size > _MOST:
            raise TooLarge(f"record {number} has {size} bytes; the limit is {_MOST}; nothing is written")
    if reading.faults:
        raise NoEvents(to.source, reading.faults, len(values))
    return records


def _numbered(headers: Mapping[str, bytes], number: int) -> Mapping[str, bytes]:
    key = headers.get(IDEMPOTENCY_HEADER)
    return headers if key is None else {**headers, IDEMPOTENCY_HEADER: key + b"/%d" % number}


ONE: Final = ("application/json", "application/octet-stream")
"""Media types of a body that is one record's value."""

LINES: Final = ("application/x-ndjson", "text/plain")
"""Media types of a body in which every line is a record's value; blank lines are ignored."""

MEDIA: Final = (*ONE, *LINES)


def values(body: bytes, media: str) -> list[bytes]:
    """The values of a body of one of MEDIA; lines end with a line feed, or a carriage return and a line feed."""
    if media in ONE:
        return [body] if body else []
    lines = (line.removesuffix(b"\r") for line in body.split(b"\n"))
    return [line for line in lines if line.strip()]
