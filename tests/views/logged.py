"""Records of the log for tests, as the archive holds them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from tandem.views.decode import DecodedRecords, decode
from tandem.views.source.log_order import further
from tandem.views.source.source import RECORDS_SCHEMA, Source

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def records(
    values: Sequence[bytes | None], *, topic_id: str = "topic", partition: int = 0, first: int = 0, since: datetime = EPOCH
) -> pa.Table:
    """Values as records of one partition, with offsets from `first` on and append times of one second each after `since`."""
    rows: list[dict[str, Any]] = [
        {
            "topic_id": topic_id,
            "partition": partition,
            "offset": first + row,
            "timestamp": since + timedelta(seconds=first + row),
            "timestamp_type": 0,
            "key": None,
            "value": value,
            "headers": [],
        }
        for row, value in enumerate(values)
    ]
    return pa.Table.from_pylist(rows, schema=RECORDS_SCHEMA)


def decoded(source: Source, *values: bytes | None) -> DecodedRecords:
    """What the values decode to."""
    return decode(source, records(values))


def reason(source: Source, value: bytes | None) -> str:
    """Why one value is no event, or `event` if it is one; checks that there is exactly one outcome."""
    result = decoded(source, value)
    records = result.events.num_rows - further(result.events)
    assert records + result.rejects.num_rows == 1
    return "event" if result.events.num_rows else str(result.rejects["reason"][0].as_py())
