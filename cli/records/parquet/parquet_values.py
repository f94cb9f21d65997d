"""The rows of a Parquet file as JSON objects, without loss; or as a source's other rows, of the same values.

| type of a column | its JSON |
| --- | --- |
| bool, integers, floating point, strings | the same; an infinite number or NaN is refused |
| decimal | a number with all digits |
| timestamp with a zone | a text in UTC with all digits: `2026-11-01T08:00:00.123456789Z` |
| timestamp without a zone | the same text without the `Z` |
| date, time of day | `2026-11-01`, `08:00:00.000123`; another than those of a calendar or clock is refused |
| duration | ISO 8601 in seconds with all digits: `-PT90.000000001S` |
| binary | base64; a UUID its text |
| list, struct, map with texts as keys | an array, an object |
| null | `null` |
| interval, any other | refused |
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tandem.cli.records.bundles import BundledValue
from tandem.views.errors import TandemError

SUFFIXES: Final = (".parquet", ".parq", ".pq")
_ROWS: Final = 10_000
_ENCODE: Final = msgspec.json.Encoder(decimal_format="number").encode
_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_NO_SUCH_TIME: Final = "<value out of range"
"""How pyarrow begins the text of a date or a time of day that does not exist."""

_PLAIN: Final[tuple[Callable[[pa.DataType], bool], ...]] = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_null,
)


EncodeRow = Callable[[Sequence[Any], str], bytes]
"""From the values of a row, and its place for errors, to bytes. Raises TandemError."""


def json_encoder(names: Sequence[str]) -> EncodeRow:
    """The function from rows with these columns to JSON objects."""
    return lambda row, _: _ENCODE(dict(zip(names, row, strict=True)))


def parquet_names(file: Path) -> list[str]:
    """The names of the file's columns. Raises TandemError if it is not Parquet."""
    with _open_parquet(file) as rows:
        names: list[str] = rows.schema_arrow.names
    return names


def parquet_values(file: Path, encoder: Callable[[Sequence[str]], EncodeRow] = json_encoder) -> Iterator[BundledValue]:
    """The rows of the file, numbered from 1 on. Raises TandemError if it is not Parquet, or JSON cannot hold it without loss.

    `encoder` makes the bytes of a row from the values that its JSON has.
    """
    with _open_parquet(file) as rows:
        names = rows.schema_arrow.names
        if len(set(names)) < len(names):
            raise TandemError(f"{file} has two columns of one name, which a JSON object cannot hold", code="file-unusable")
        for column in rows.schema_arrow:
            _check(column.type, f"column {column.name!r} of {file}")
        encode, number = encoder(names), 0
        for batch in rows.iter_batches(_ROWS):
            columns = [
                _values(column, f"column {name!r} of {file}, rows {number + 1} to {number + batch.num_rows}")
                for name, column in zip(names, batch.columns, strict=True)
            ]
            for row in zip(*columns, strict=True):
                number += 1
                value = encode(row, f"row {number} of {file}")
                yield BundledValue(value, number, len(value) + 1)


@contextmanager
def _open_parquet(file: Path) -> Iterator[pq.ParquetFile]:
    try:
        # Without a unit pyarrow reads INT96, which Spark writes, as nanoseconds, and years before 1678 and after 2261 as others.
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as rows:
            yield rows
    except (OSError, pa.ArrowException) as error:
        raise TandemError(f"cannot read {file} as Parquet: {str(error).splitlines()[0]}", code="file-unusable") from error


def _check(of: pa.DataType, place: str) -> None:
    """Refuse a type that JSON does not hold without loss."""
    if isinstance(of, pa.BaseExtensionType):
        _check(of.storage_type, place)
    elif pa.types.is_dictionary(of):
        _check(of.value_type, place)
    elif pa.types.is_struct(of):
        if len({field.name for field in of}) < of.num_fields:
            raise TandemError(f"{place} has two fields of one name, which a JSON object cannot hold", code="file-unusable")
        for field in of:
            _check(field.type, place)
    elif pa.types.is_map(of):
        if not pa.types.is_string(of.key_type) and not pa.types.is_large_string(of.key_type):
            raise TandemError(
                f"{place} is a map with keys of type {of.key_type}; a JSON object has texts as keys", code="file-unusable"
            )
        _check(of.item_type, place)
    elif pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        _check(of.value_type, place)
    elif not any(fits(of) for fits in _PLAIN):
        raise TandemError(f"{place} has type {of}, which JSON cannot hold without loss: cast or drop it", code="file-unusable")


def _values(column: pa.Array, place: str) -> list[Any]:
    """The column as values that msgspec encodes without loss."""
    of = column.type
    if isinstance(of, pa.BaseExtensionType):
        stored = _values(column.storage, place)
        is_uuid = of.extension_name == "arrow.uuid"
        return [None if value is None else UUID(bytes=value) for value in stored] if is_uuid else stored
    if pa.types.is_dictionary(of):
        return _values(column.dictionary_decode(), place)
    if pa.types.is_struct(of):
        inner = [_values(field, place) for field in column.flatten()]
        rows = zip(*inner, strict=True) if inner else ((),) * len(column)
        names = [field.name for field in of]
        return [
            dict(zip(names, row, strict=True)) if valid else None
            for row, valid in zip(rows, column.is_valid().to_pylist(), strict=True)
        ]
    if pa.types.is_map(of):
        pairs = _values(column.cast(pa.list_(pa.struct([("key", of.key_type), ("value", of.item_type)]))), place)
        return [None if row is None else _object(row, place) for row in pairs]
    if pa.types.is_list(of) or pa.types.is_large_list(of) or pa.types.is_fixed_size_list(of):
        items = iter(_values(column.flatten(), place))
        return [None if size is None else [next(items) for _ in range(size)] for size in pc.list_value_length(column).to_pylist()]
    if pa.types.is_timestamp(of):
        zoned = of.tz is not None
        utc = column.cast(pa.timestamp(of.unit, "UTC")) if zoned else column
        return [None if text is None else text.replace(" ", "T", 1) for text in utc.cast(pa.string()).to_pylist()]
    if pa.types.is_date(of) or pa.types.is_time(of):
        texts = column.cast(pa.string()).to_pylist()
        if (wrong := next((text for text in texts if text is not None and text.startswith(_NO_SUCH_TIME)), None)) is not None:
            number = wrong.rpartition(" ")[2].rstrip(">")
            raise TandemError(f"{place}: the {of} {number} does not exist; replace it by null", code="file-unusable")
        return list(texts)
    if pa.types.is_duration(of):
        digits = _DIGITS[of.unit]
        return [None if number is None else _duration_text(number, digits) for number in column.cast(pa.int64()).to_pylist()]
    if pa.types.is_floating(of):
        numbers = column.cast(pa.float64())
        if not pc.all(pc.is_finite(numbers), min_count=0).as_py():
            raise TandemError(
                f"{place}: a number is infinite or NaN, which JSON does not have; replace it by null", code="file-unusable"
            )
        return list(numbers.to_pylist())
    return list(column.to_pylist())


def _object(pairs: list[dict[str, Any]], place: str) -> dict[str, Any]:
    row = {pair["key"]: pair["value"] for pair in pairs}
    if len(row) < len(pairs):
        raise TandemError(f"{place}: a map has a key twice, which a JSON object cannot hold", code="file-unusable")
    return row


def _duration_text(number: int, digits: int) -> str:
    """ISO 8601 of a duration; the last `digits` of the number are after the second's point."""
    whole, rest = divmod(abs(number), 10**digits)
    fraction = f".{rest:0{digits}}" if rest else ""
    return f"{'-' if number < 0 else ''}PT{whole}{fraction}S"
