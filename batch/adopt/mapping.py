"""From the columns of a table to records: the fields of the event type as a JSON object."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DoubleType, FloatType, StringType

from tandem.batch.adopt.table import CORRUPT, NotAdopted
from tandem.views.errors import listed
from tandem.views.source.event import event_fields
from tandem.views.source.source import Source

_JSON: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "ignoreNullFields": "false",
}
_PLACED_AS: Final = {"topic": "string", "partition": "int", "offset": "bigint"}
_PLACE: Final = [f"_place_{name}" for name in _PLACED_AS]
_TYPES: Final = {bool: "boolean", int: "bigint", float: "double", datetime: "timestamp"}


def map_rows(
    source: Source, frame: DataFrame, expressions: Mapping[str, str], coordinates: tuple[str, str, str] | None = None
) -> DataFrame:
    """The columns `value` and `file` of each row. `expressions` are SQL of Spark by name of a field.

    With `coordinates`, SQL of Spark for them, also `topic`, `partition` and `offset`.

    A text that is not of its field's type stays the text, so that the record becomes a reject with it. Raises NotAdopted.
    """
    fields = {field.key: field for field in event_fields(source.event)}
    for name in expressions.keys() - fields.keys():
        raise NotAdopted(f"--map {name}: no field {name!r} in {source.event.__name__}; fields: {listed(name, fields)}")
    columns: dict[str, Column] = {}
    for name, field in fields.items():
        if name in expressions:
            columns[name] = sql.expr(expressions[name])
        elif name in frame.columns:
            columns[name] = frame[f"`{name}`"]
        elif field.required:
            raise NotAdopted(
                f"the table has no column for field {name!r} of {source.event.__name__}; add --map {name}=EXPRESSION; columns: "
                f"{listed(name, [column for column in frame.columns if column not in {'_file', CORRUPT}])}"
            )
    places = [] if coordinates is None else [sql.expr(text).alias(name) for name, text in zip(_PLACE, coordinates, strict=True)]
    mapped = frame.select(*(column.alias(name) for name, column in columns.items()), *places, *_beside(frame))
    types = dict(zip(mapped.columns, mapped.schema.fields, strict=True))
    typed, misfits = dict[str, Column](), list[Column]()
    for name in columns:
        column = mapped[f"`{name}`"]
        target = _TYPES.get(fields[name].type) if isinstance(types[name].dataType, StringType) else None
        if isinstance(types[name].dataType, FloatType):
            column = column.cast(DoubleType())
        elif target is not None and target != "timestamp":
            fitting = column.try_cast(target)
            misfits.append(column.isNotNull() & fitting.isNull())
            column = fitting
        typed[name] = column
    value = _object(typed)
    for misfit in misfits:
        value = sql.when(misfit, _object({name: mapped[f"`{name}`"] for name in columns})).otherwise(value)
    if CORRUPT in mapped.columns:
        value = sql.coalesce(mapped[CORRUPT], value)
    place = [mapped[f"_place_{name}"].try_cast(kind).alias(name) for name, kind in _PLACED_AS.items() if places]
    return mapped.select(value.alias("value"), mapped["_file"].alias("file"), *place)


def _beside(frame: DataFrame) -> Sequence[str]:
    return [name for name in ("_file", CORRUPT) if name in frame.columns]


def _object(columns: Mapping[str, Column]) -> Column:
    return sql.to_json(sql.struct(*(column.alias(name) for name, column in columns.items())), _JSON)
