"""The spine of a training set: rows with keys and a time, and the features that each of them gets."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from tandem.views.arrow import arrays
from tandem.views.errors import TandemError, listed
from tandem.views.instant import FIRST, LAST
from tandem.views.view import View, bind

ROW: Final = "_row"
AT: Final = "_at"
KEY: Final = "_key_{}"
WINDOW: Final = "_window"
"""The start of the window that a row asks for; without this column, a row asks for the window that contains its time."""
_MICROSECONDS: Final = pa.timestamp("us", "UTC")


class BadSpine(TandemError, code="spine-invalid"):
    """A file of rows and times that cannot be used."""


@dataclass(frozen=True)
class Spine:
    """The rows of a file, and their times in microseconds since 1970; of a CSV file also its `texts`, as they are written."""

    rows: pa.Table
    times: npt.NDArray[np.int64] = field(compare=False)
    texts: pa.Table | None = field(default=None, compare=False)

    def with_keys(self, view: View, columns: Mapping[str, str]) -> pa.Table:
        """The number and the time of each row, with the view's keys; `columns` names the column of a key, if another one.

        Raises BadSpine for a column that is missing or does not fit its key.
        """
        numbered = {
            ROW: arrays.row_numbers(self.rows.num_rows),
            AT: arrays.from_numpy(self.times, pa.int64()),
        }
        keys = {}
        for number, (name, key) in enumerate(bind(view).keys):
            column = columns.get(name, name)
            if column not in self.rows.column_names:
                raise BadSpine(
                    f"the spine has no column {column!r} for key {name!r} of view {view.name!r}; columns: "
                    f"{listed(column, self.rows.column_names)}; name another with --key {name}=COLUMN"
                )
            try:
                keys[KEY.format(number)] = _as_key(self._values(column, key.type.arrow), key.type.arrow)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise BadSpine(
                    f"column {column!r} of the spine does not fit key {name!r} of view {view.name!r}, which is {key.type.sql}: "
                    f"{error}"
                ) from error
        return pa.table(numbered | keys)

    def _values(self, column: str, kind: pa.DataType) -> pa.ChunkedArray:
        """A column for a key of a type: a text or a decimal is what is written, not the number that it looks like."""
        if self.texts is None or not (pa.types.is_string(kind) or pa.types.is_decimal(kind)):
            return self.rows[column]
        texts = self.texts[column]
        empty = pc.equal(texts, "")
        return texts if pa.types.is_string(kind) else pc.if_else(empty, pa.scalar(None, pa.string()), texts)


def _as_key(values: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column in the type of a key. Raises pa.ArrowInvalid if a value would become another one."""
    type_, of_texts = values.type, not pa.types.is_primitive(values.type)
    if pa.types.is_timestamp(kind) and not (of_texts or (pa.types.is_timestamp(type_) and type_.tz is not None)):
        raise pa.ArrowInvalid(f"{type_} is not a time with a zone")
    keys = values.cast(kind)
    if not (of_texts or (pa.types.is_floating(type_) and pa.types.is_floating(kind))):
        # Arrow rounds a decimal to a float less exactly than its text.
        exact = keys.cast(pa.string()) if pa.types.is_decimal(kind) and pa.types.is_floating(type_) else keys
        changed = pc.index(pc.not_equal(exact.cast(type_), values), True).as_py()
        if changed >= 0:
            raise pa.ArrowInvalid(f"{values[changed]} would become {keys[changed]}")
    return arrays.whole(keys)


def load_spine(path: Path, time: str) -> Spine:
    """Read a file of Parquet or CSV, or a folder of Parquet files. Raises BadSpine unless each row has a time with a zone."""
    of_texts = path.suffix.lower() == ".csv"
    try:
        rows, texts = _csv(path) if of_texts else (_parquet(path), None)
    except (OSError, pa.ArrowException) as error:
        raise BadSpine(f"{path} cannot be read as {'CSV' if of_texts else 'Parquet'}: {error}") from error
    twice = [name for name in rows.column_names if rows.column_names.count(name) > 1]
    if twice:
        raise BadSpine(f"{path} has {twice.count(twice[0])} columns {twice[0]!r}; name each column once")
    if time not in rows.column_names:
        raise BadSpine(f"{path} has no column {time!r}; columns: {listed(time, rows.column_names)}")
    type_ = rows.schema.field(time).type
    if not pa.types.is_timestamp(type_) or type_.tz is None:
        raise BadSpine(
            f"{path}: column {time!r} is {type_}, which is not a time with a zone; write times such as 2026-11-01T08:00:00Z, or "
            "the column as a timestamp of UTC"
        )
    if missing := rows[time].null_count:
        first = pc.index(pc.is_null(rows[time]), True).as_py()
        raise BadSpine(f"{path}: column {time!r} is empty in {missing} rows, the first of them row {first + 1}")
    try:
        # Only nanoseconds may lose digits: coarser times that do not fit would become others.
        times = rows[time].cast(_MICROSECONDS, safe=type_.unit != "ns")
    except pa.ArrowInvalid as error:
        raise BadSpine(f"{path}: column {time!r} has a time that no event has: {error}") from error
    spine = Spine(rows, arrays.integers(arrays.whole(times.cast(pa.int64()))), texts)
    outside = np.flatnonzero((spine.times < FIRST) | (spine.times > LAST))
    if len(outside):
        raise BadSpine(
            f"{path}: column {time!r} has a time that no event has: row {outside[0] + 1} is not in the years 1 to 9999"
        )
    return spine


def _csv(path: Path) -> tuple[pa.Table, pa.Table]:
    """The rows with the types that their values suggest, and as texts.

    Integers that begin with 0 or +, or have more digits than 64 bits, are texts in both.
    """
    rows = pa.csv.read_csv(path)
    as_written = pa.csv.ConvertOptions(column_types={name: pa.string() for name in rows.column_names})
    texts = pa.csv.read_csv(path, convert_options=as_written)
    for number, field_ in enumerate(rows.schema):
        there = pc.if_else(pc.is_null(rows[number]), pa.scalar(None, pa.string()), texts[number])
        if pa.types.is_integer(field_.type):
            same = pc.all(pc.equal(rows[number].cast(pa.string()), there), min_count=0)
        elif pa.types.is_floating(field_.type):
            same = pc.invert(pc.all(pc.match_substring_regex(there, r"^[+-]?[0-9]+$"), min_count=0))
        else:
            continue
        if not same.as_py():
            rows = rows.set_column(number, field_.name, there)
    return rows, texts


def _parquet(path: Path) -> pa.Table:
    if (path / "_delta_log").is_dir():
        raise BadSpine(
            f"{path} is a Delta table, whose folder also has the files of its earlier versions; write the rows of one to a file"
        )
    files = sorted(file for file in path.rglob("*.parquet") if file.is_file()) if path.is_dir() else [path]
    if not files:
        raise BadSpine(f"{path} has no file that ends with .parquet")
    tables = [pq.ParquetFile(file).read() for file in files]
    for file, table in zip(files, tables, strict=True):
        if table.schema != tables[0].schema:
            columns, others = (", ".join(f"{each.name} {each.type}" for each in of.schema) for of in (table, tables[0]))
            raise BadSpine(f"{file} has columns {columns}, but {files[0]} has {others}; all files of a spine need the same")
    return pa.concat_tables(tables)
