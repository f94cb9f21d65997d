"""The times of records that are rows of a table: those of their events, read from the values as the decoder reads them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

import msgspec
import pyarrow as pa

from tandem.batch.adopt.table import NotAdopted
from tandem.views.instant import APPEND_TIME, EPOCH, GREGORIAN, LAST, microseconds
from tandem.views.source.event import Field
from tandem.views.source.fields.event_time import instant_of, time_path
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.fields.time_reader import is_time, time_reader
from tandem.views.source.source import RECORDS_SCHEMA, Source


@dataclass(frozen=True)
class RecordTimes:
    """The field with the event time, and the keys of the objects around it and of itself.

    Tasks of Spark get it, which do not have the event type.
    """

    keys: tuple[str, ...]
    field: Field

    @classmethod
    def of(cls, source: Source) -> "RecordTimes":
        """Raises NotAdopted if the source's event time is the broker's."""
        if source.event_time == APPEND_TIME:
            raise NotAdopted(f"source {source.name!r} takes its event time from the broker, which rows of a table do not have")
        path = time_path(source.event, source.event_time)
        last = path[-1]
        return cls(tuple(field.key for field in path), Field(last.name, last.key, last.type, last.arrow, notation=last.notation))

    def column(self, values: pa.ChunkedArray) -> pa.Array:
        """The time of each value; 1970 where it has none. A time that not every reader of the log has is the nearest."""
        read = _microseconds_reader(self)
        times = [read(value) for value in values.to_pylist()]
        return pa.array(times, pa.int64()).cast(RECORDS_SCHEMA.field("timestamp").type)


@lru_cache(maxsize=16)
def _microseconds_reader(times: RecordTimes) -> Callable[[Any], int]:
    shape: Any = Any
    for key in reversed(times.keys):
        shape = msgspec.defstruct("Row", [("inner", shape)], rename={"inner": key})
    # A decimal is exact, as the numbers of times are to the decoder.
    decode = msgspec.json.Decoder(shape, float_hook=Decimal).decode
    field, depth = times.field, len(times.keys)
    read = time_reader(field) if is_time(field) else partial(msgspec.convert, type=field.type)

    def microseconds_of(value: Any) -> int:
        try:
            inner: Any = decode(value)
            for _ in range(depth):
                inner = inner.inner
            time = instant_of(field, read(inner))
        except (Reject, msgspec.MsgspecError, UnicodeDecodeError, TypeError):
            return microseconds(EPOCH)
        if not isinstance(time, datetime) or time.tzinfo is None:
            return microseconds(EPOCH)
        return min(max(microseconds(time), GREGORIAN), LAST)

    return microseconds_of
