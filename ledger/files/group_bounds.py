"""The bounds of columns in the row groups of a Parquet file, from its footer. A column without bounds excludes nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq


@dataclass(frozen=True)
class Bounds:
    """The least and the greatest value of a column in a row group, None if unknown; whether it may have NULL, or nothing else."""

    low: Any
    high: Any
    null: bool
    only_null: bool = False

    def may_have(self, value: Any) -> bool:
        """Whether the row group may have this value, None for NULL."""
        if value is None:
            return self.null
        return not self.only_null and (self.low is None or bool(self.low <= value <= self.high))


@dataclass(frozen=True)
class FileBounds:
    """The row groups of a file: the footer, and the bounds of some columns, one for each row group."""

    footer: pq.FileMetaData
    bounds: Mapping[str, Sequence[Bounds]] = field(hash=False)

    @property
    def nbytes(self) -> int:
        """About the bytes of memory that it uses."""
        return int(self.footer.serialized_size) * 4


def file_bounds(footer: pq.FileMetaData, names: Sequence[str]) -> FileBounds:
    """The bounds of these columns, of those that the file has."""
    places = {footer.schema.column(place).path: place for place in range(footer.num_columns)}
    there = {name: places[name] for name in names if name in places}
    return FileBounds(footer, {name: [*_bounds(footer, place)] for name, place in there.items()})


def _bounds(footer: pq.FileMetaData, place: int) -> Iterator[Bounds]:
    for group in range(footer.num_row_groups):
        column = footer.row_group(group).column(place)
        statistics = column.statistics
        if statistics is None:
            yield Bounds(None, None, null=True)
            continue
        low, high = (statistics.min, statistics.max) if statistics.has_min_max else (None, None)
        nulls = statistics.null_count if statistics.has_null_count else None
        yield Bounds(low, high, null=nulls != 0, only_null=nulls == column.num_values)
