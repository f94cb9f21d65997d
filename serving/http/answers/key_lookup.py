"""Rows of an answer that have one of many keys."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from tandem.serving.http.answers.question import outside
from tandem.serving.memory.index import Numbers
from tandem.serving.memory.key_values import fits
from tandem.serving.read.selection import BadSelection, parse_keys
from tandem.views.arrow import arrays, python_values
from tandem.views.sql import engine
from tandem.views.sql.engine import quoted
from tandem.views.view import View, state_schema

Scalar = str | int | float | bool | None

_FEW: Final = 1_000
"""Up to this many rows and keys are matched here: a statement of DuckDB takes 3 ms for one row, too."""


@dataclass(frozen=True)
class Matched:
    """The rows, ordered by the number of their key, and the numbers of the keys without a row."""

    rows: pa.Table
    absent: tuple[int, ...]


def wanted(view: View, keys: Sequence[Mapping[str, Scalar]]) -> pa.Table:
    """The keys as a table, with their number in `_n`. Raises BadSelection, which names the invalid key."""
    if not view.keys:
        raise BadSelection(f"view {view.name!r} has no keys to look up; request its rows")
    for number, key in enumerate(keys):
        if key.keys() != view.keys.keys():
            raise BadSelection(f"key {number} has {', '.join(key) or 'no values'}; expected {', '.join(view.keys)}")
    schema = state_schema(view)
    types = {name: schema.field(name).type for name in view.keys}
    columns = [
        python_values.array([_value(view, number, name, key[name], arrow) for number, key in enumerate(keys)], arrow)
        for name, arrow in types.items()
    ]
    return pa.table([*columns, arrays.from_numpy(np.arange(len(keys)), pa.int64())], [*types, "_n"])


def matched(view: View, rows: pa.Table, keys: pa.Table) -> Matched:
    """The rows whose keys are among those of `wanted`, in the order of the request; NULL matches NULL."""
    few = rows.num_rows + keys.num_rows <= _FEW
    numbers, places = (_matched_here if few else _joined)([*view.keys], rows, keys)
    absent = np.setdiff1d(keys["_n"].to_numpy(), numbers)
    return Matched(rows.take(arrays.from_numpy(places, pa.int64())), tuple(absent.tolist()))


def _matched_here(names: Sequence[str], rows: pa.Table, keys: pa.Table) -> tuple[Numbers, Numbers]:
    """The numbers of keys and the places of their rows, in this order."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for place, key in enumerate(_values(rows, names)):
        found.setdefault(key, []).append(place)
    asked = zip(keys["_n"].to_pylist(), _values(keys, names), strict=True)
    pairs = np.array([(number, place) for number, key in asked for place in found.get(key, ())], np.int64).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1]


def _joined(names: Sequence[str], rows: pa.Table, keys: pa.Table) -> tuple[Numbers, Numbers]:
    """The same for any number of rows and keys."""
    numbered = pa.table([*(rows[name] for name in names), pa.array(np.arange(len(rows)))], [*names, "_i"])
    same = " AND ".join(f"_rows.{quoted(name)} IS NOT DISTINCT FROM _wanted.{quoted(name)}" for name in names)
    sql = f"SELECT _wanted._n, _rows._i FROM _wanted JOIN _rows ON {same} ORDER BY 1, 2"
    found = engine.query(sql, {"_rows": numbered, "_wanted": keys})
    return found["_n"].to_numpy(), found["_i"].to_numpy()


def _values(table: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def visible(keys: pa.Table, bound: Mapping[str, pa.Scalar]) -> pa.Table:
    """Those of `wanted` that are visible to a caller that is bound to values of keys."""
    seen = [not outside({name: keys[name][place] for name in bound}, bound) for place in range(len(keys))]
    return keys.filter(pa.array(seen, pa.bool_())) if bound else keys


def _value(view: View, number: int, name: str, value: Scalar, arrow: pa.DataType) -> Any:
    """The value of a key as Arrow returns it in Python. Raises BadSelection."""
    if value is None or fits(value, arrow):
        return value
    if isinstance(value, bool):  # whose text is also one of a key of text
        raise BadSelection(f"key {number}: invalid value {_text(value)} of key {name!r}; it has no boolean values")
    try:
        return parse_keys(view, [f"{name}={_text(value)}"])[name].as_py()
    except BadSelection as error:
        raise BadSelection(f"key {number}: {error}") from None


def _text(value: str | float | bool) -> str:  # noqa: FBT001 - a JSON value
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)
