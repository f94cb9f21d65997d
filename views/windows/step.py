"""How rows become groups: one SQL statement over rows of events, states or answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from tandem.views.sql.engine import quoted

Layer = Callable[[str, str], str]
"""From SQL for rows, and SQL for the columns to partition them by, to SQL for rows with more columns."""

Prepare = Callable[[pa.Table, Sequence[str]], pa.Table]
"""From rows, and the names of the keys, to rows with more columns; for what SQL cannot do."""


@dataclass(frozen=True)
class Step:
    """How rows become groups: `groups` are the columns that rows of a group have in common, besides the view's keys.

    `aggregates` are further columns of the group, and `finish` is computed from both; all by name, in SQL over the rows
    of `layer`. `prepare` comes first.
    """

    groups: Mapping[str, str]
    aggregates: Mapping[str, str] = field(default_factory=dict)
    finish: Mapping[str, str] = field(default_factory=dict)
    layer: Layer | None = None
    prepare: Prepare | None = None

    def sql(self, rows: str, keys: Mapping[str, str], states: Mapping[str, str]) -> str:
        """The statement: one row per combination of keys and groups, with the aggregates and `states`."""
        if self.layer is not None:
            rows = self.layer(rows, ", ".join(keys.values()) or "NULL")
        common = {**keys, **self.groups}
        chosen = {**common, **self.aggregates, **states}
        selected = ", ".join(f"{sql} AS {quoted(name)}" for name, sql in chosen.items())
        grouped = f"SELECT {selected} FROM {rows} GROUP BY {', '.join(common.values()) or 'ALL'}"
        if not self.finish:
            return grouped
        return f"SELECT *, {', '.join(f'{sql} AS {quoted(name)}' for name, sql in self.finish.items())} FROM ({grouped})"


def same(columns: Sequence[pa.Field]) -> Step:
    """The step that puts rows with equal columns in one group."""
    return Step({column.name: quoted(column.name) for column in columns})
