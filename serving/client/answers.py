"""What a server's client gives: pages of rows, typed tables, and the positions of events that were sent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from tandem.serving.read.tabular import SHOWN, Tabular, html_table, row_count


@dataclass(frozen=True, repr=False)
class RowsPage:
    """Rows as dicts, with their total and their provenance.

    After a lookup `absent` has the numbers of the keys without any row, and `hidden` those of the keys whose rows the token may
    not see, whether there are any or not.
    """

    rows: list[dict[str, Any]]
    total: int
    provenance: Mapping[str, Any]
    absent: tuple[int, ...] = ()
    hidden: tuple[int, ...] = ()

    def __repr__(self) -> str:
        return f"<RowsPage {row_count(len(self.rows))}>"

    def _repr_html_(self) -> str:
        names = list(self.rows[0]) if self.rows else []
        shown = [[row.get(name) for name in names] for row in self.rows[:SHOWN]]
        left_out = f"; the first {SHOWN} are shown" if len(self.rows) > SHOWN else ""
        return html_table(names, shown, f"{row_count(len(self.rows))}{left_out}")


@dataclass(frozen=True, repr=False)
class ServerAnswer(Tabular):
    """Rows as a typed table, from one snapshot; `provenance` names the positions that they count."""

    question: str
    table: pa.Table

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What the rows count."""
        document: dict[str, Any] = msgspec.json.decode(self.table.schema.metadata[b"provenance"])
        return document

    def caption(self) -> str:
        """The question, number of rows, and how exact they are."""
        return f"{self.question}: {row_count(self.table.num_rows)}; {self.provenance['exactness']['says']}"


class RecordPlace(NamedTuple):
    """The position of a record in the log; no offset if the broker only reports that it has the record already."""

    topic_id: str
    partition: int
    offset: int | None


@dataclass(frozen=True)
class SentEvents:
    """Events that are in the log: the position of each record, and the `min_position` of a question whose answer counts them."""

    places: tuple[RecordPlace, ...]
    min_position: str | None
