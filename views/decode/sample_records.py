"""Values that are not in a log, as the records that the log would hold."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa

from tandem.views.arrow.python_values import array
from tandem.views.source.source import LOG_APPEND_TIME, RECORDS_SCHEMA, Source, record_columns


def as_records(
    source: Source,
    values: Sequence[bytes],
    *,
    topic_id: str,
    offsets: Sequence[int],
    at: datetime,
    keys: Sequence[bytes | None] | None = None,
    headers: Sequence[Mapping[str, bytes | None]] | None = None,
) -> pa.Table:
    """The columns that `decode` reads: one partition, these offsets, appended at `at`, with keys and headers if given."""
    columns: dict[str, Sequence[Any]] = {
        "topic_id": [topic_id] * len(values),
        "partition": [0] * len(values),
        "offset": offsets,
        "timestamp": [at] * len(values),
        "timestamp_type": [LOG_APPEND_TIME] * len(values),
        "value": values,
        "key": [None] * len(values) if keys is None else keys,
        "headers": [[{"key": name, "value": value} for name, value in of.items()] for of in headers or [{}] * len(values)],
    }
    names = list(record_columns(source))
    return pa.Table.from_arrays([array(columns[name], RECORDS_SCHEMA.field(name).type) for name in names], names=names)
