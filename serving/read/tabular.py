"""Rows of an answer for programs and notebooks: Arrow, pandas and Polars tables of exact types, a short `repr`, and HTML.

| kind    | Arrow                  | pandas                             | Polars              |
| ------- | ---------------------- | ---------------------------------- | ------------------- |
| boolean | bool                   | boolean                            | Boolean             |
| integer | int64                  | Int64                              | Int64               |
| integer | decimal without places | objects: int                       | Int128              |
| decimal | decimal                | objects: Decimal                   | Decimal             |
| float   | float64                | Float64                            | Float64             |
| text    | string                 | objects: str                       | String              |
| binary  | binary                 | objects: bytes                     | Binary              |
| date    | date32                 | objects: date                      | Date                |
| time    | timestamp(us, UTC)     | datetime64[us, UTC]                | Datetime("us", UTC) |
| list    | list                   | objects: list, as Python has it    | List                |
| struct  | struct                 | objects: dict, as Python has it    | Struct              |

NULL is null in Arrow and Polars. In pandas it is NA in nullable types, NaT in times, None in objects; it never turns an integer
into a float.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from tandem.views.errors import TandemError
from tandem.views.instant import utc_text

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no types
    import polars as pl

DIGITS: Final = 38
SHOWN: Final = 20
"""The rows of an answer that a notebook shows."""

_LONGEST: Final = 200
"""Characters of a value that a notebook shows."""


def narrowed(kind: pa.DataType) -> pa.DataType:
    """The type with decimals of at most 38 digits, in lists and structs too; casting a number with more digits to it fails."""
    if pa.types.is_decimal256(kind):
        return pa.decimal128(DIGITS, kind.scale)
    if pa.types.is_list(kind):
        return pa.list_(narrowed(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, narrowed(field.type)) for field in kind])
    return kind


class _WithTable(Protocol):
    @property
    def table(self) -> pa.Table: ...

    def caption(self) -> str: ...


class Tabular:
    """An answer with a `table` and a `caption` of a few words."""

    def to_arrow(self: _WithTable) -> pa.Table:
        """The rows as an Arrow table, whose schema says `kind`, `unit` and `doc` of each column."""
        return self.table

    def to_pandas(self: _WithTable) -> "pd.DataFrame":
        """The rows as a pandas data frame of exact types (tandem.serving.read.tabular); needs pandas."""
        pandas = _library("pandas", "to_pandas()")
        return pandas.DataFrame({field.name: _series(pandas, self.table[field.name], field) for field in self.table.schema})

    def to_polars(self: _WithTable) -> "pl.DataFrame":
        """The rows as a Polars data frame of exact types (tandem.serving.read.tabular); needs Polars."""
        polars = _library("polars", "to_polars()")
        columns = [_narrow(self.table, field) for field in self.table.schema]
        frame: pl.DataFrame = polars.DataFrame(pa.Table.from_arrays(columns, names=self.table.column_names))
        return frame.with_columns(polars.col(field.name).cast(polars.Int128) for field in self.table.schema if _huge(field))

    def __repr__(self: _WithTable) -> str:
        return f"<{type(self).__name__} {self.caption()}>"

    def _repr_html_(self: _WithTable) -> str:
        shown = self.table.slice(0, SHOWN).to_pylist()
        left_out = f"; the first {SHOWN} are shown" if self.table.num_rows > SHOWN else ""
        return html_table(self.table.column_names, [[*row.values()] for row in shown], f"{self.caption()}{left_out}")


def row_count(number: int) -> str:
    """A number of rows in words."""
    return f"{number:,} row{'' if number == 1 else 's'}"


def html_table(names: Sequence[str], rows: Sequence[Sequence[Any]], caption: str) -> str:
    """Rows as an HTML table without any style of its own, every text escaped, with the caption below."""
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{escape(text_of(value))}</td>' for value in row)}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table><p>{escape(caption)}</p>"


def text_of(value: Any) -> str:
    """A value for a person, at most 200 characters."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case datetime():
            text = value.isoformat(sep=" ") if value.tzinfo is None else utc_text(value).replace("T", " ")
        case Decimal():
            text = format(value, "f")
        case dict():
            text = " ".join(f"{name}={text_of(part)}" for name, part in value.items())
        case list():
            text = f"[{', '.join(map(text_of, value))}]"
        case _:
            text = str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"


def _library(name: str, call: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        raise TandemError(
            f"{call} needs the package {name}, which is not installed: `pip install {name}`; to_arrow() and rows() do not",
            code="packages-missing",
        ) from error


def _huge(field: pa.Field) -> bool:
    """Whether a column has integers that need more than 64 bits; without a kind, decimals without places are integers."""
    kind = (field.metadata or {}).get(b"kind", b"integer")
    return bool(pa.types.is_decimal(field.type) and field.type.scale == 0 and kind == b"integer")


def _series(pandas: Any, column: pa.ChunkedArray, field: pa.Field) -> "pd.Series":
    nullable = {pa.bool_(): pandas.BooleanDtype, pa.float32(): pandas.Float32Dtype, pa.float64(): pandas.Float64Dtype}
    for bits in (8, 16, 32, 64):
        nullable[getattr(pa, f"int{bits}")()] = getattr(pandas, f"Int{bits}Dtype")
        nullable[getattr(pa, f"uint{bits}")()] = getattr(pandas, f"UInt{bits}Dtype")
    if pa.types.is_nested(field.type) or pa.types.is_decimal(field.type):
        write = int if _huge(field) else _same
        values = [None if value is None else write(value) for value in column.to_pylist()]
        return pandas.Series(values, dtype=object)
    return column.to_pandas(types_mapper=lambda of: nullable[of]() if of in nullable else None)


def _same(value: Any) -> Any:
    return value


def _narrow(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column in a type that Polars has: its decimals hold 38 digits."""
    column = table[field.name]
    try:
        return column.cast(narrowed(field.type))
    except pa.ArrowInvalid as error:
        raise TandemError(
            f"column {field.name!r} has a number of more than 38 digits, which Polars cannot hold; to_arrow() and rows() can"
        ) from error
