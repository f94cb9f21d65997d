"""An answer as rows for people and JSON: flat, ordered, in types that every JSON reader has.

| kind      | in a row                                                   |
| --------- | ---------------------------------------------------------- |
| boolean   | true, false                                                |
| integer   | an integer of any size                                     |
| decimal   | a string with all its digits, "12.30"                      |
| float     | a number; null where it is not finite                      |
| text      | a string                                                   |
| binary    | a base64 string, as events have it in JSON                 |
| date      | "2026-11-01"                                               |
| time      | "2026-11-01T00:00:00Z", with microseconds where it has any |
| list      | [1, 2], each as its kind says                              |
| struct    | {"0.5": 1.0, "0.99": 2.0}, each as its kind says           |
| map       | {"a": 1}, each as its kind says; in events, not in answers |
"""

from base64 import b64encode
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from itertools import islice
from math import isfinite
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.instant import time_of, utc_text
from tandem.views.source.value_types import kind_of
from tandem.views.view import View, answer_schema, group_columns
from tandem.views.windows import WINDOW_COLUMNS

Values = list[Any]


def ordered(view: View, answer: pa.Table) -> pa.Table:
    """The answer by window start, then by the keys in their order, then by the window's other columns.

    Null comes last, texts are in the order of code points.
    """
    if answer.num_rows <= 1:
        return answer
    order = dict.fromkeys((WINDOW_COLUMNS[0], *view.keys, *group_columns(view)), "ascending")
    return answer.take(pc.sort_indices(answer, sort_keys=list(order.items())))


def to_rows(view: View, answer: pa.Table) -> list[dict[str, Any]]:
    """The answer's rows as `query --json` prints them, in order: keys, window, measures.

    `answer` has the columns of answer_schema(view), or all but some measures, in any order of rows. All-time rows have null
    bounds.
    """
    schema = pa.schema([field for field in answer_schema(view) if field.name in answer.column_names])
    table = ordered(view, answer.select(schema.names))
    columns = [written(table[field.name].combine_chunks(), field) for field in schema]
    return [dict(zip(schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def writer(field: pa.Field) -> Callable[[Any], Any]:
    """A function that writes one value of a column, given as Arrow's Python object, as `written` writes whole columns."""
    if pa.types.is_list(field.type):
        element = writer(field.type.value_field)
        return lambda value: None if value is None else [element(one) for one in value]
    if pa.types.is_struct(field.type):
        parts = [(part.name, writer(part)) for part in field.type]
        return lambda value: None if value is None else {name: write(value[name]) for name, write in parts}
    write = _VALUE[_kind(field)]
    return lambda value: None if value is None else write(value)


def time_text(microseconds: int) -> str:
    """A time in microseconds since 1970, as rows have it."""
    return utc_text(time_of(microseconds))


def _kind(field: pa.Field) -> str:
    named = (field.metadata or {}).get(b"kind")
    return named.decode() if named is not None else str(kind_of(field.type))


def _decimal_text(value: Decimal) -> str:
    return format(value, "f")


def _binary_text(value: bytes) -> str:
    return b64encode(value).decode()


def _plain(column: pa.Array) -> Values:
    values: Values = column.to_pylist()
    return values


def _each(write: Callable[[Any], Any]) -> Callable[[pa.Array], Values]:
    return lambda column: [None if value is None else write(value) for value in column.to_pylist()]


def _integers(column: pa.Array) -> Values:
    """Integers that may need more than 64 bits are stored as decimals; nearly all of them fit 64 bits."""
    try:
        return _plain(column.cast(pa.int64()))
    except pa.ArrowInvalid:
        return _each(int)(column)


def _floats(column: pa.Array) -> Values:
    return _plain(pc.if_else(pc.is_finite(column), column, None))


def _times(column: pa.Array) -> Values:
    """Many rows share a window, so answers have few distinct times: each is formatted once."""
    encoded = pc.dictionary_encode(column)
    microseconds = encoded.dictionary.cast(pa.int64()).to_numpy().astype("datetime64[us]")
    texts = [f"{text.removesuffix('.000000')}Z" for text in np.datetime_as_string(microseconds, unit="us").tolist()]
    return [None if index is None else texts[index] for index in encoded.indices.to_pylist()]


def _lists(column: pa.ListArray, arrow: pa.ListType) -> Values:
    elements = iter(written(column.flatten(), arrow.value_field))
    present = arrays.validity(column)
    return [
        list(islice(elements, length)) if is_there else None
        for length, is_there in zip(arrays.lengths(column).tolist(), present.tolist(), strict=True)
    ]


def _structs(column: pa.StructArray, arrow: pa.StructType) -> Values:
    parts = [written(part, field) for part, field in zip(column.flatten(), arrow, strict=True)]
    names = [field.name for field in arrow]
    present = arrays.validity(column).tolist()
    rows = zip(*parts, strict=True)
    return [dict(zip(names, row, strict=True)) if is_there else None for row, is_there in zip(rows, present, strict=True)]


def written(column: pa.Array, field: pa.Field) -> Values:
    """The values of a column, or of its elements, by the field's kind; without a kind, the Arrow type decides."""
    if pa.types.is_list(field.type):
        return _lists(column, field.type)
    if pa.types.is_struct(field.type):
        return _structs(column, field.type)
    if pa.types.is_map(field.type):
        pairs = pa.list_(pa.struct([pa.field("key", pa.string()), field.type.item_field]))
        return [
            None if row is None else {pair["key"]: pair[field.type.item_field.name] for pair in row}
            for row in _lists(column.cast(pairs), pairs)
        ]
    return _VALUES[_kind(field)](column)


_VALUES: Final[dict[str, Callable[[pa.Array], Values]]] = {
    "boolean": _plain,
    "integer": _integers,
    "decimal": _each(_decimal_text),
    "float": _floats,
    "text": _plain,
    "binary": _each(_binary_text),
    "date": _each(date.isoformat),
    "time": _times,
}

_VALUE: Final[dict[str, Callable[[Any], Any]]] = {
    "boolean": bool,
    "integer": int,
    "decimal": _decimal_text,
    "float": lambda value: value if isfinite(value) else None,
    "text": str,
    "binary": _binary_text,
    "date": date.isoformat,
    "time": utc_text,
}
