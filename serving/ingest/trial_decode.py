"""Decoding values as readers of the log will: their keys, and which of them are not events."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tandem.views.decode import decode
from tandem.views.decode.sample_records import as_records
from tandem.views.project.partition_key import record_keys
from tandem.views.source.record_filter import record_filter_name
from tandem.views.source.source import Source


@dataclass(frozen=True)
class Fault:
    """Why a record of a request, counted from 0, is not an event of the source: the decoder's reason and detail."""

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
    faults = [Fault(one["offset"], one["reason"], one["detail"]) for one in decoded.rejects.to_pylist()]
    if decoded.others and source.record_filter is not None:
        known = {*decoded.events["_offset"].to_pylist(), *(fault.record for fault in faults)}
        said = f"not of {record_filter_name(source.record_filter)}, which selects the source's records"
        faults += [Fault(number, "other", said) for number in numbers if number not in known]
    return Reading(keys, sorted(faults, key=lambda fault: fault.record))
