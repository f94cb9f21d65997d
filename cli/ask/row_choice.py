"""Which rows and columns of an answer a person sees: their order, a limit, some columns."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from tandem.serving.read.outcome import Absent, Value
from tandem.serving.read.selection import BadSelection
from tandem.views.errors import listed
from tandem.views.exactness import MARK

Direction = Literal["ascending", "descending"]

_DIRECTIONS: Final[dict[str, Direction]] = {"": "ascending", "asc": "ascending", "desc": "descending"}


@dataclass(frozen=True)
class RowChoice:
    """`order` sorts by columns, NULL last; `limit` is the largest number of rows; `columns` are all if it is empty."""

    order: Sequence[tuple[str, Direction]] = ()
    limit: int | None = None
    columns: Sequence[str] = ()

    def of(self, answer: Value | Absent) -> tuple[pa.Table, list[dict[str, Any]]]:
        """The chosen rows as a table, and in JSON types. Raises BadSelection for a column that the answer does not have."""
        table, rows = answer.table, answer.rows()
        for name in [*(name for name, _ in self.order), *self.columns]:
            if name not in table.column_names:
                raise BadSelection(
                    f"view {answer.view.name!r} has no column {name!r}; columns: {listed(name, table.column_names)}"
                )
        if self.order:
            places = _places(table, self.order)[: self.limit]
            table, rows = table.take(places), [rows[place] for place in places.to_pylist()]
        if self.columns:
            table = table.select(self.columns)
            rows = [{name: row[name] for name in [*self.columns, *((MARK,) if MARK in row else ())]} for row in rows]
        return table, rows


def parse_columns(texts: Iterable[str]) -> tuple[str, ...]:
    """The names of `A,B` texts, each once."""
    return tuple(dict.fromkeys(name.strip() for text in texts for name in text.split(",") if name.strip()))


def parse_order(texts: Iterable[str]) -> tuple[tuple[str, Direction], ...]:
    """The columns and directions of `A,B desc` texts. Raises BadSelection."""
    terms: dict[str, Direction] = {}
    for term in (part.strip() for text in texts for part in text.split(",")):
        name, _, direction = term.partition(" ")
        if not name or direction.strip().lower() not in _DIRECTIONS:
            raise BadSelection(f"invalid order {term!r}; write a column, or a column and desc, such as 'revenue desc, city'")
        terms[name] = _DIRECTIONS[direction.strip().lower()]
    return tuple(terms.items())


def _places(table: pa.Table, order: Sequence[tuple[str, Direction]]) -> pa.Array:
    for name, _ in order:
        if pa.types.is_nested(table.schema.field(name).type):
            raise BadSelection(f"column {name!r} has several values in a row, so rows cannot be ordered by it")
    # NULL comes last by default.
    return pc.sort_indices(table, sort_keys=list(order))
