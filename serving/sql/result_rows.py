"""The result of a statement in types that every JSON reader has, each as answers have it (tandem.views.kernel.rows).

| Arrow                           | in a row                                                                                 |
| ------------------------------- | ---------------------------------------------------------------------------------------- |
| integer, decimal without places | an integer of any size                                                                   |
| other decimal                   | a string with all its digits, "12.30"                                                    |
| float                           | a number; null where it is not finite                                                    |
| date, timestamp, time           | ISO 8601, with as many places as are needed; "infinity" and "-infinity"                  |
| binary                          | a base64 string                                                                          |
| list, map                       | a list; of a map one of pairs                                                            |
| struct                          | an object                                                                                |
| union                           | the value that there is                                                                  |

A year beyond 0 to 9999 has a sign and at least six digits, as "+294247-01-10" and "-000043-03-15" (ISO 8601, expanded).
"""

import math
from base64 import b64encode
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tandem.views.arrow import arrays

Values = list[Any]

_INFINITE: Final = {2**63 - 1: "infinity", 1 - 2**63: "-infinity"}
_INFINITE_DAYS: Final = {2**31 - 1: "infinity", 1 - 2**31: "-infinity"}
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def to_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows in order, of the types that results have (serving/sql/database.py). Raises TypeError for any other type."""
    columns = [[value for chunk in column.chunks for value in _values(chunk)] for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def _values(array: pa.Array) -> Values:
    """The values of an array, or of a part of one."""
    for is_of, written in _WRITTEN:
        if is_of(array.type):
            return written(array)
    raise TypeError(f"a result has a column of type {array.type}, which JSON cannot represent")


def _plain(array: pa.Array) -> Values:
    values: Values = array.to_pylist()
    return values


def _each(write: Callable[[Any], Any]) -> Callable[[pa.Array], Values]:
    return lambda array: [None if value is None else write(value) for value in array.to_pylist()]


def _float(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _decimal(value: Decimal) -> int | str:
    return int(value) if value.as_tuple().exponent == 0 else format(value, "f")


def _binary(value: bytes) -> str:
    return b64encode(value).decode()


def _timestamps(array: pa.TimestampArray) -> Values:
    zone = "" if array.type.tz is None else "Z"
    return _dated(array, arrays.integers(array), array.type.unit, _INFINITE, lambda text: f"{_shortened(text)}{zone}")


def _dates(array: pa.Date32Array) -> Values:
    return _dated(array, arrays.integers(array.cast(pa.int32()).cast(pa.int64())), "D", _INFINITE_DAYS, str)


def _dated(
    array: pa.Array, counts: npt.NDArray[np.int64], unit: str, infinite: dict[int, str], write: Callable[[str], str]
) -> Values:
    finite = ~np.isin(counts, list(infinite)) & arrays.validity(array)
    texts = np.datetime_as_string(np.where(finite, counts, 0).astype(f"datetime64[{unit}]"))
    return [
        write(_expanded(text)) if is_finite else infinite.get(count) if is_there else None
        for text, count, is_finite, is_there in zip(
            texts.tolist(), counts.tolist(), finite.tolist(), arrays.validity(array).tolist(), strict=True
        )
    ]


def _expanded(text: str) -> str:
    """A date as ISO 8601 has it, whatever its year; numpy writes -43 as "-043"."""
    if text[4] == "-" and text[0] != "-":
        return text
    year, _, rest = text.removeprefix("-").partition("-")
    return f"{'-' if text[0] == '-' else '+'}{year.zfill(6)}-{rest}"


def _times(array: pa.Array) -> Values:
    """Times of day."""
    unit = _PER_SECOND[array.type.unit]
    return [None if count is None else _time(count, unit) for count in array.cast(_COUNTED[array.type.bit_width]).to_pylist()]


def _time(count: int, unit: int) -> str:
    seconds, fraction = divmod(count, unit)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return _shortened(f"{hour:02}:{minute:02}:{second:02}.{fraction:0{len(str(unit)) - 1}}")


def _shortened(text: str) -> str:
    """A time without a fraction that is zero, and in microseconds where these are enough, as answers have it."""
    whole, _, fraction = text.partition(".")
    if not fraction.strip("0"):
        return whole
    return f"{whole}.{fraction[:6].ljust(6, '0')}{fraction[6:].rstrip('0') and fraction[6:]}"


def _lists(array: pa.ListArray) -> Values:
    return _cut(array, _values(array.values), array.offsets.to_pylist())


def _maps(array: pa.MapArray) -> Values:
    pairs = [list(pair) for pair in zip(_values(array.keys), _values(array.items), strict=True)]
    return _cut(array, pairs, array.offsets.to_pylist())


def _cut(array: pa.Array, elements: Values, offsets: Sequence[int]) -> Values:
    there = arrays.validity(array).tolist()
    bounds = zip(there, offsets[:-1], offsets[1:], strict=True)
    return [elements[start:end] if is_there else None for is_there, start, end in bounds]


def _fixed_lists(array: pa.FixedSizeListArray) -> Values:
    elements, size = _values(array.values), array.type.list_size
    there = arrays.validity(array).tolist()
    starts = range(array.offset * size, (array.offset + len(array)) * size, size) if size else [0] * len(array)
    return [elements[start : start + size] if is_there else None for is_there, start in zip(there, starts, strict=True)]


def _structs(array: pa.StructArray) -> Values:
    # Not `flatten`: it ends the process where a struct that may be null holds a union (Arrow 26).
    parts = [_values(array.field(place)) for place in range(array.type.num_fields)]
    names, there = [field.name for field in array.type], arrays.validity(array).tolist()
    rows = zip(*parts, strict=True)
    return [dict(zip(names, row, strict=True)) if is_there else None for row, is_there in zip(rows, there, strict=True)]


def _unions(array: pa.UnionArray) -> Values:
    parts = {code: _values(array.field(place)) for place, code in enumerate(array.type.type_codes)}
    return [parts[code][row] for row, code in enumerate(array.type_codes.to_pylist())]


def _dictionaries(array: pa.DictionaryArray) -> Values:
    known = _values(array.dictionary)
    return [None if place is None else known[place] for place in array.indices.to_pylist()]


_COUNTED: Final = {32: pa.int32(), 64: pa.int64()}
_WRITTEN: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], Values]], ...]] = (
    (pa.types.is_null, _plain),
    (pa.types.is_boolean, _plain),
    (pa.types.is_integer, _plain),
    (pa.types.is_floating, _each(_float)),
    (pa.types.is_decimal, _each(_decimal)),
    (pa.types.is_string, _plain),
    (pa.types.is_binary, _each(_binary)),
    (pa.types.is_date32, _dates),
    (pa.types.is_timestamp, _timestamps),
    (pa.types.is_time, _times),
    (pa.types.is_dictionary, _dictionaries),
    (pa.types.is_list, _lists),
    (pa.types.is_map, _maps),
    (pa.types.is_fixed_size_list, _fixed_lists),
    (pa.types.is_struct, _structs),
    (pa.types.is_union, _unions),
)
