"""Decimals of other systems: exact totals may need 76 digits; DuckDB's, Spark's and Polars' decimals have 38."""

from typing import Final

import pyarrow as pa

DIGITS: Final = 38


def narrowed(kind: pa.DataType) -> pa.DataType:
    """The type with decimals of at most 38 digits, in lists and structs too; casting a number with more digits to it fails."""
    if pa.types.is_decimal256(kind):
        return pa.decimal128(DIGITS, kind.scale)
    if pa.types.is_list(kind):
        return pa.list_(narrowed(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, narrowed(field.type)) for field in kind])
    return kind
