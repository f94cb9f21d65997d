"""What an expression gives for each event by itself: a value, None for NULL, or a reason to reject the event."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from math import isfinite
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow import arrays
from tandem.views.source.value_types import ValueType
from tandem.views.sql import engine
from tandem.views.sql.expressions import Reason, bind_expression
from tandem.views.sql.syntax import enclosed

_ROWS: Final = "_oracle_rows"
_ROW: Final = "_row"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST_US: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST_US: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True)
class Rejected:
    """Stands for the value of an expression that gave none."""

    reason: Reason


_FAILED: Final = Rejected("expression")


def evaluated(text: str, rows: pa.Table) -> list[Any]:
    """A value for each row, in Python; Rejected where the expression fails, is not finite or leaves the years 1 to 9999."""
    expression = bind_expression(text, rows.schema, "the events")
    numbered = rows.append_column(_ROW, arrays.row_numbers(rows.num_rows))
    sql = f"SELECT {_ROW}, TRY(struct_pack(v := CAST({enclosed(text)} AS {expression.type.sql}))) AS e FROM {_ROWS}"
    found: list[Any] = [_FAILED] * rows.num_rows
    for _, result in engine.halved(sql, _ROWS, numbered):
        if result is not None:
            given = arrays.whole(result["e"])
            values = _plain(pc.struct_field(given, "v"), expression.type)
            for row, there, value in zip(result[_ROW].to_pylist(), pc.is_valid(given).to_pylist(), values, strict=True):
                found[row] = value if there else _FAILED
    return found


def _plain(column: pa.Array, type_: ValueType) -> Sequence[Any]:
    """The values as Python has them; what no reader's calendar or no number line has is rejected."""
    if type_.kind == "float":
        return [None if value is None else _float(value) for value in column.to_pylist()]
    if type_.kind == "date":
        return [None if day is None else _date(day) for day in column.cast(pa.int32()).to_pylist()]
    if type_.kind == "time":
        return [None if time is None else _time(time) for time in column.cast(pa.int64()).to_pylist()]
    if type_.kind == "integer":
        return [None if value is None else int(value) for value in column.to_pylist()]
    values: list[Any] = column.to_pylist()
    return values


def _float(value: float) -> float | Rejected:
    return value + 0.0 if isfinite(value) else Rejected("not_finite")  # -0.0 + 0.0 is 0.0


def _date(day: int) -> date | Rejected:
    inside = date.min.toordinal() <= day + _EPOCH_DAY <= date.max.toordinal()
    return date.fromordinal(day + _EPOCH_DAY) if inside else Rejected("out_of_range")


def _time(microseconds: int) -> datetime | Rejected:
    inside = _FIRST_US <= microseconds <= _LAST_US
    return _EPOCH + microseconds * _MICROSECOND if inside else Rejected("out_of_range")
