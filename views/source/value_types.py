"""The types of values: of keys, states and answers.

| DuckDB                                | becomes                | kind    |
| ------------------------------------- | ---------------------- | ------- |
| BOOLEAN                               | bool                   | boolean |
| TINYINT to BIGINT, UTINYINT to UINTEGER | int64                | integer |
| UBIGINT, HUGEINT, UHUGEINT            | decimal128(38, 0)      | integer |
| DECIMAL(p, s)                         | decimal128(p, s)       | decimal |
| FLOAT, DOUBLE                         | float64, finite, never -0.0 | float |
| VARCHAR, ENUM, UUID, JSON             | string                 | text    |
| BLOB                                  | binary                 | binary  |
| DATE                                  | date32                 | date    |
| TIMESTAMP WITH TIME ZONE              | timestamp(us, UTC)     | time    |

These are types that every Delta reader supports. Each value has one representation, so equal keys are one key.
"""

from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
from duckdb.sqltypes import DuckDBPyType

from tandem.views.errors import DefinitionError
from tandem.views.source.event import TIMESTAMP

Kind = Literal["boolean", "integer", "decimal", "float", "text", "binary", "date", "time"]

HUGE: Final = pa.decimal128(38, 0)
"""The stored type of an integer of more than 64 bits, for which Delta and Arrow have no integer type."""


@dataclass(frozen=True)
class ValueType:
    """The type of an expression's values: its kind, its SQL type and its Arrow type."""

    kind: Kind
    sql: str
    arrow: pa.DataType

    @property
    def number(self) -> bool:
        """Whether values are numbers."""
        return self.kind in ("integer", "decimal", "float")


BOOLEAN: Final = ValueType("boolean", "BOOLEAN", pa.bool_())
INTEGER: Final = ValueType("integer", "BIGINT", pa.int64())
HUGE_INTEGER: Final = ValueType("integer", "DECIMAL(38,0)", HUGE)
FLOAT: Final = ValueType("float", "DOUBLE", pa.float64())
TEXT: Final = ValueType("text", "VARCHAR", pa.string())
BINARY: Final = ValueType("binary", "BLOB", pa.binary())
DATE: Final = ValueType("date", "DATE", pa.date32())
TIME: Final = ValueType("time", "TIMESTAMP WITH TIME ZONE", TIMESTAMP)

_TYPES: Final[dict[str, ValueType]] = {
    "boolean": BOOLEAN,
    **dict.fromkeys(("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger"), INTEGER),
    **dict.fromkeys(("ubigint", "hugeint", "uhugeint"), HUGE_INTEGER),
    **dict.fromkeys(("float", "double"), FLOAT),
    **dict.fromkeys(("varchar", "enum", "uuid"), TEXT),
    "blob": BINARY,
    "date": DATE,
    "timestamp with time zone": TIME,
}
_INSTEAD: Final = {
    **dict.fromkeys(
        ("timestamp", "timestamp_ns", "timestamp_ms", "timestamp_s"), "say which zone it is in: ... AT TIME ZONE 'UTC'"
    ),
    "interval": "make it a number, for example epoch(...)",
    "time": "make it a text, for example strftime(...)",
    "map": "take the value of a key, m['key'], or join its keys: array_to_string(map_keys(m), ',')",
    "list": "take one element, or join them: array_to_string(...)",
    "struct": "take one of its fields",
    "null": "a bare NULL has no type: write CAST(NULL AS ...)",
    "bignum": "the integers here have at most 38 digits",
}
SUPPORTED: Final = "BOOLEAN, integers, DECIMAL, DOUBLE, VARCHAR, BLOB, DATE, TIMESTAMP WITH TIME ZONE"


def kind_of(arrow: pa.DataType) -> Kind | Literal["list", "struct"] | None:
    """The meaning of an Arrow type's values where no expression defines it; None for an unknown type."""
    if pa.types.is_list(arrow):
        return "list" if kind_of(arrow.value_type) else None
    if pa.types.is_struct(arrow):
        return "struct" if arrow.num_fields and all(kind_of(field.type) for field in arrow) else None
    if pa.types.is_decimal128(arrow):
        return "decimal"
    return next((value.kind for value in _TYPES.values() if value.arrow == arrow), None)


def field_kind(arrow: pa.DataType) -> Kind | Literal["list", "map", "struct"] | None:
    """The meaning of the type of an event's field, which may be a map, as no answer is; None for an unknown type."""
    if pa.types.is_map(arrow):
        return "map" if arrow.key_type == pa.string() and field_kind(arrow.item_type) else None
    if pa.types.is_list(arrow):
        return "list" if field_kind(arrow.value_type) else None
    if pa.types.is_struct(arrow):
        return "struct" if arrow.num_fields and all(field_kind(field.type) for field in arrow) else None
    return kind_of(arrow)


def answer_field(name: str, value: ValueType) -> pa.Field:
    """A field of a struct or list in an answer; its metadata has the kind of the values, which the Arrow type may not show."""
    return pa.field(name, value.arrow, metadata={"kind": value.kind})


def value_type(sql_type: DuckDBPyType) -> ValueType:
    """The type for a DuckDB type. Raises DefinitionError for a type outside the table above."""
    name = str(sql_type.id)
    if name == "decimal":
        digits, scale = (size for _, size in sql_type.children)
        return ValueType("decimal", f"DECIMAL({digits},{scale})", pa.decimal128(digits, scale))
    if name in _TYPES:
        return _TYPES[name]
    hint = f"; {_INSTEAD[name]}" if name in _INSTEAD else ""
    raise DefinitionError(f"is of type {sql_type}; supported are {SUPPORTED}{hint}")


def normalised(sql: str, value: ValueType) -> str:
    """SQL for the value in its one representation; it fails for an integer of more than 38 digits."""
    if value.kind == "float":
        return f"CAST({sql} AS DOUBLE) + 0.0"  # -0.0 + 0.0 is 0.0
    return f"CAST({sql} AS {value.sql})"


def objections(sql: str, value: ValueType) -> tuple[tuple[str, Literal["not_finite", "out_of_range"]], ...]:
    """Conditions on a column under which its value is rejected, each with its reason; NULL meets none."""
    if value.kind == "float":
        return ((f"NOT isfinite({sql})", "not_finite"),)
    if value.kind == "date":
        return ((f"{sql} NOT BETWEEN DATE '0001-01-01' AND DATE '9999-12-31'", "out_of_range"),)
    if value.kind == "time":
        first, last = "TIMESTAMPTZ '0001-01-01 00:00:00+00'", "TIMESTAMPTZ '9999-12-31 23:59:59.999999+00'"
        return ((f"{sql} NOT BETWEEN {first} AND {last}", "out_of_range"),)
    return ()
