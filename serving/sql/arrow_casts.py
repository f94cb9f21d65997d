"""Results whose values every format supports: values that Arrow cannot hold, or holds with another meaning, are cast first.

| DuckDB                                         | becomes        | since Arrow                                       |
| ---------------------------------------------- | -------------- | ------------------------------------------------- |
| HUGEINT, UHUGEINT                              | DECIMAL(38, 0) | has 38 digits, and more became another number     |
| INTERVAL                                       | VARCHAR        | counts nanoseconds, and more became another time  |
| TIME WITH TIME ZONE                            | VARCHAR        | has no zones of times                             |
| BIT, BIGNUM, TYPE                              | VARCHAR        | has bytes of DuckDB's own, or nothing, for them   |
| VARIANT                                        | JSON           | has bytes that few readers know                   |

The same inside lists, arrays, structs, maps and unions. A number that has more digits is refused by the cast.
"""

from typing import Any, Final

import duckdb
from duckdb.sqltypes import DuckDBPyType

from tandem.views.sql.engine import quoted

_INSTEAD: Final = {
    **dict.fromkeys(("hugeint", "uhugeint"), "DECIMAL(38,0)"),
    **dict.fromkeys(("interval", "time with time zone", "bit", "bignum", "type"), "VARCHAR"),
    "variant": "JSON",
}


def representable(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """The relation with columns of such types alone; itself if it has no others."""
    types = [_sql(kind) for kind in relation.types]
    if all(sql is None for sql in types):
        return relation
    columns = [
        f"{f'#{place}' if sql is None else f'CAST(#{place} AS {sql})'} AS {quoted(name)}"  # two columns may have one name
        for place, (name, sql) in enumerate(zip(relation.columns, types, strict=True), 1)
    ]
    return relation.project(", ".join(columns))


def _sql(kind: DuckDBPyType) -> str | None:
    """The SQL of the type that a type is cast to; None if it stays as it is."""
    name = str(kind.id)
    if name in _INSTEAD:
        return _INSTEAD[name]
    if name not in ("list", "array", "struct", "tuple", "map", "union"):
        return None
    children: list[tuple[str, Any]] = kind.children
    parts = dict(children) if name != "tuple" else {f"element{n}": part for n, (_, part) in enumerate(children, 1)}
    size = parts.pop("size") if name == "array" else ""
    if name == "union":
        del parts[""]  # says which of the others there is
    inner = {part: _sql(of) for part, of in parts.items()}
    if all(sql is None for sql in inner.values()):
        return None
    written = {part: sql or str(parts[part]) for part, sql in inner.items()}
    if name in ("list", "array"):
        return f"{written['child']}[{size}]"
    if name == "map":
        return f"MAP({written['key']}, {written['value']})"
    kept = ", ".join(f"{quoted(part)} {sql}" for part, sql in written.items())
    return f"{'UNION' if name == 'union' else 'STRUCT'}({kept})"
