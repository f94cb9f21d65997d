"""The rows of a table in place of events: what `Table.rows()` returns, and the source by which they are folded."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from tandem.views.source.event import Event
from tandem.views.source.source import Source


class TableRow(Event):
    """A row of a table, as errors name it; all of its columns are those of the source."""

    valid_from: datetime


@dataclass(frozen=True)
class RowsOfTable:
    """The rows that a table has now: `View(source=price_of.rows(), ...)`. `kind` is the kind of such views."""

    table: Any
    kind: type = field(repr=False)


@dataclass(frozen=True)
class RowsSource(Source):
    """The rows of a table in place of events: `columns` are what expressions read, with the place of each row's version.

    It decodes nothing. Its other fields are those of the source whose versions the table has.
    """

    columns: pa.Schema = field(default_factory=lambda: pa.schema([]))

    def __post_init__(self) -> None:
        """Nothing: the table has been checked."""
