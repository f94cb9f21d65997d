"""Records' headers as JSON text, in which they come from Spark's JVM to the tasks that copy records.

Spark bounds the bytes of a batch by computing its size after each row. For the nested column of headers that took more time than
all else of a copy, also where no record has headers: a million records took 2.1 times as long.
"""

from typing import Final, TypedDict

import msgspec
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sql

from views.arrow.python_values import array
from views.source.source import RECORDS_SCHEMA

_HEADERS: Final = "headers"
_KIND: Final = RECORDS_SCHEMA.field(_HEADERS).type


class _Header(TypedDict):
    key: str
    value: bytes | None


_decoder: Final = msgspec.json.Decoder(list[_Header])


def texts() -> Column:
    """The column of texts: values are base64, null stays null."""
    return sql.to_json(_HEADERS, {"ignoreNullFields": "false"}).alias(_HEADERS)


def with_headers(records: pa.RecordBatch) -> pa.RecordBatch:
    """The records with the headers of their texts, as RECORDS_SCHEMA has them."""
    place = records.schema.get_field_index(_HEADERS)
    found = records.column(place)
    if found.null_count == len(found):
        headers = pa.nulls(len(found), _KIND)
    else:
        headers = array([None if text is None else _decoder.decode(text) for text in found.to_pylist()], _KIND)
    return records.set_column(place, RECORDS_SCHEMA.field(_HEADERS), headers)
