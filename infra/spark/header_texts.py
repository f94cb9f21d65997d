"""Records' headers as JSON text, in which they pass between Spark's JVM and Python. This module imports no PySpark.

Spark bounds the bytes of a batch by computing its size after each row. For the nested column of headers that takes more time than
all else of a copy, also where no record has headers: a million records took 2.1 times as long.
"""

from typing import Final, TypedDict

import msgspec
import pyarrow as pa

from views.arrow.python_values import array
from views.source.source import RECORDS_SCHEMA

_HEADERS: Final = "headers"
_KIND: Final = RECORDS_SCHEMA.field(_HEADERS).type


class _Header(TypedDict):
    key: str
    value: bytes | None


_decoder: Final = msgspec.json.Decoder(list[_Header])


def with_headers(records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with the headers of their texts, as RECORDS_SCHEMA has them; records without the column stay."""
    place = records.schema.get_field_index(_HEADERS)
    if place < 0:
        return records
    found = records.column(place)
    if found.null_count == len(found):
        headers = pa.nulls(len(found), _KIND)
    else:
        headers = array([None if text is None else _decoder.decode(text) for text in found.to_pylist()], _KIND)
    return records.set_column(place, RECORDS_SCHEMA.field(_HEADERS), headers)


def with_texts(records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with texts in place of their headers; records without the column stay."""
    place = records.schema.get_field_index(_HEADERS)
    if place < 0:
        return records
    found = records.column(place)
    if found.null_count == len(found):
        told = pa.nulls(len(found), pa.string())
    else:
        told = array([None if each is None else msgspec.json.encode(each).decode() for each in found.to_pylist()], pa.string())
    return records.set_column(place, pa.field(_HEADERS, pa.string()), told)
