"""The idempotency keys of records: the header's value, or else the record's position in the log, which is unique."""

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa

from tandem.views.arrow.python_values import array
from tandem.views.source.fields.reasons import Reject
from tandem.views.source.source import IDEMPOTENCY_HEADER, IDEMPOTENCY_KEY

MOST_CHARACTERS: Final = 255


def with_keys(batch: pa.RecordBatch, events: pa.RecordBatch, rejected: dict[int, Reject], *, row: str) -> pa.RecordBatch:
    """Add a column of keys to the events; their column `row` names their record. Invalid headers go to `rejected`, by record."""
    rows = events.column(row).to_pylist()
    records = list(dict.fromkeys(rows))
    chosen = batch.select(["topic_id", "partition", "offset", "headers"]).take(array(records, pa.int64()))
    keys = dict(zip(records, map(_key, *(column.to_pylist() for column in chosen.columns)), strict=True))
    rejected.update({record: key for record, key in keys.items() if isinstance(key, Reject)})
    kept = [number for number, record in enumerate(rows) if not isinstance(keys[record], Reject)]
    if len(kept) < len(rows):
        events = events.take(array(kept, pa.int64()))
    return events.append_column(IDEMPOTENCY_KEY, array([keys[rows[number]] for number in kept], pa.string()))


def is_key(value: bytes | None) -> bool:
    """Whether a header's bytes can be a key: 1 to 255 visible ASCII characters."""
    return value is not None and 0 < len(value) <= MOST_CHARACTERS and all(0x21 <= byte <= 0x7E for byte in value)


def own_place(topic_id: str, partition: int, offset: int) -> str:
    """The key of a record without a header. It contains a space, so it equals no valid key."""
    return f"at {topic_id}/{partition}/{offset}"


def _key(topic_id: str, partition: int, offset: int, headers: Sequence[dict[str, Any]] | None) -> str | Reject:
    given = [header["value"] for header in headers or () if header["key"] == IDEMPOTENCY_HEADER]
    if not given:
        return own_place(topic_id, partition, offset)
    # If the header is repeated, the last one counts, as for record_filter.
    key: bytes | None = given[-1]
    if key is None or not is_key(key):
        return Reject("invalid_value", f"header {IDEMPOTENCY_HEADER!r} is not 1 to {MOST_CHARACTERS} visible ASCII characters")
    return key.decode("ascii")
