"""Records' headers as JSON text, in which they pass between Spark's JVM and Python. This module imports no PySpark.

Spark bounds the bytes of a batch by computing its size after each row. For the nested column of headers that takes more time than
all else of a copy, also where no record has headers: a million records took 2.1 times as long.
"""

from collections.abc import Callable
from typing import Any, Final, TypedDict

import msgspec
import pyarrow as pa

from tandem.views.arrow.python_values import array
from tandem.views.source.source import RECORDS_SCHEMA

_HEADERS: Final = "headers"


class _Header(TypedDict):
    key: str
    value: bytes | None


_decoder: Final = msgspec.json.Decoder(list[_Header])


def with_headers(records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with the headers of their texts, as RECORDS_SCHEMA has them; records without the column stay."""
    return _converted(records, _decoder.decode, RECORDS_SCHEMA.field(_HEADERS))


def with_texts(records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with texts in place of their headers; records without the column stay."""
    return _converted(records, lambda headers: msgspec.json.encode(headers).decode(), pa.field(_HEADERS, pa.string()))


def _converted(records: pa.RecordBatch, convert: Callable[[Any], object], field: pa.Field) -> pa.RecordBatch:
    place = records.schema.get_field_index(_HEADERS)
    if place < 0:
        return records
    found = records.column(place)
    # Most topics have no headers: then there is no row to convert.
    rows = [] if found.null_count == len(found) else found.to_pylist()
    converted = [None if each is None else convert(each) for each in rows]
    return records.set_column(place, field, array(converted, field.type) if rows else pa.nulls(len(found), field.type))
