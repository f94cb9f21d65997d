"""The three outcomes of a read.

    Value     rows were counted
    Absent    everything up to the answer's position was read, and no row matches
    Failed    what the answer needs could not be read, so nothing is claimed

An empty answer is therefore never mistaken for an unavailable answer.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from tandem.serving.read.provenance import Provenance
from tandem.serving.read.touched_rows import TOUCHED, any_touched, marked
from tandem.views.errors import TandemError
from tandem.views.kernel.rows import to_rows
from tandem.views.view import View, answer_schema

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # it ships no types
    import polars as pl

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


class ReadFailed(TandemError, code="answer-unavailable"):
    """No answer can be given; raised where a caller wants rows or an error."""


class _WithTable(Protocol):
    @property
    def table(self) -> pa.Table: ...


class _Tabular:
    """The rows of an answer as a table of other libraries."""

    def to_arrow(self: _WithTable) -> pa.Table:
        """The rows as an Arrow table, whose schema says `kind`, `unit` and `doc` of each column."""
        return self.table

    def to_pandas(self: _WithTable) -> "pd.DataFrame":
        """The rows as a pandas data frame; needs pandas."""
        return self.table.to_pandas()

    def to_polars(self: _WithTable) -> "pl.DataFrame":
        """The rows as a Polars data frame; needs Polars."""
        return _to_polars(self.table)


@dataclass(frozen=True)
class Value(_Tabular):
    """Rows of a view, ordered by window start, then keys; `total` is their number before a limit.

    `touched` says which of them realtime states are part of, None where that makes no difference.
    """

    view: View
    table: pa.Table
    total: int
    provenance: Provenance
    touched: pa.ChunkedArray | None = None

    def rows(self) -> list[dict[str, Any]]:
        """The rows as flat dicts, as `query --json` prints them; the reasons of a single row are in its `_exactness`."""
        return marked(to_rows(self.view, self.table), self.touched, self.provenance.exactness.marks)

    def with_touched(self) -> pa.Table:
        """The rows, and the column that says which are touched (tandem.serving.read.touched_rows) where they matter."""
        return self.table if self.touched is None else self.table.append_column(TOUCHED, self.touched)


@dataclass(frozen=True)
class Absent(_Tabular):
    """No matching rows."""

    view: View
    provenance: Provenance
    total: int = 0

    @property
    def table(self) -> pa.Table:
        """No rows, with the columns of the view's answers."""
        return pa.Table.from_batches([], answer_schema(self.view))

    def rows(self) -> list[dict[str, Any]]:
        """No rows."""
        return []

    def with_touched(self) -> pa.Table:
        """No rows."""
        return self.table


@dataclass(frozen=True)
class Failed:
    """No answer; `reason` is one sentence for the user."""

    reason: str


Outcome = Value | Absent | Failed


def answered(
    view: View, table: pa.Table, touched: pa.ChunkedArray | None, provenance: Provenance, *, total: int
) -> Value | Absent:
    """The outcome of rows; `provenance` is that of all rows of the view, and stays if a limit leaves none of them."""
    if not total:
        return Absent(view, provenance.of(touched=False))
    told = provenance.of(touched=not table.num_rows or any_touched(touched))
    return Value(view, table, total, told, touched if told.exactness.marked else None)


def given(outcome: Outcome) -> Value | Absent:
    """The answer, or ReadFailed with the reason when there is none."""
    if isinstance(outcome, Failed):
        raise ReadFailed(outcome.reason)
    return outcome


def document(outcome: Value | Absent, *, now: datetime) -> dict[str, Any]:
    """The answer as the JSON document of `query`: view, rows and provenance."""
    return {"view": outcome.view.name, "rows": outcome.rows(), "provenance": outcome.provenance.to_json(now=now)}


def _to_polars(table: pa.Table) -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415  only who asks for it has to have it

    return pl.DataFrame(pa.Table.from_arrays([_narrow(table, field) for field in table.schema], names=table.column_names))


def _narrow(table: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """A column in a type that Polars has: its decimals hold 38 digits."""
    column = table[field.name]
    try:
        return column.cast(narrowed(field.type))
    except pa.ArrowInvalid as error:
        raise TandemError(
            f"column {field.name!r} has a number of more than 38 digits, which Polars cannot hold; to_arrow() and rows() can"
        ) from error
