"""The three outcomes of a read.

    Value     rows were counted
    Absent    everything up to the answer's position was read, and no row matches
    Failed    what the answer needs could not be read, so nothing is claimed

An empty answer is therefore never mistaken for an unavailable answer.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from tandem.serving.read.provenance import Provenance
from tandem.serving.read.tabular import Tabular, row_count
from tandem.serving.read.touched_rows import TOUCHED, any_touched, marked
from tandem.views.errors import TandemError
from tandem.views.kernel.rows import to_rows
from tandem.views.view import View, answer_schema


class ReadFailed(TandemError, code="answer-unavailable"):
    """No answer can be given; raised where a caller wants rows or an error."""


@dataclass(frozen=True, repr=False)
class Value(Tabular):
    """Rows of a view, ordered by window start, then keys; `total` is their number before a limit.

    `touched` says which of them realtime states are part of, None where that makes no difference.
    """

    view: View
    table: pa.Table
    total: int
    provenance: Provenance
    touched: pa.ChunkedArray | None = None

    def rows(self) -> list[dict[str, Any]]:
        """The rows as flat dicts, as `query --json` prints them; the reasons of a single row are in its `_exactness`."""
        return marked(to_rows(self.view, self.table), self.touched, self.provenance.exactness.marks)

    def caption(self) -> str:
        """View, number of rows, and how exact they are."""
        number = row_count(self.table.num_rows)
        return (
            f"{self.view.name}: {f'{number} of {self.total:,}' if self.table.num_rows < self.total else number}; {_source(self)}"
        )

    def with_touched(self) -> pa.Table:
        """The rows, and the column that says which are touched (tandem.serving.read.touched_rows) where they matter."""
        return self.table if self.touched is None else self.table.append_column(TOUCHED, self.touched)


@dataclass(frozen=True, repr=False)
class Absent(Tabular):
    """No matching rows."""

    view: View
    provenance: Provenance
    total: int = 0

    @property
    def table(self) -> pa.Table:
        """No rows, with the columns of the view's answers."""
        return pa.Table.from_batches([], answer_schema(self.view))

    def rows(self) -> list[dict[str, Any]]:
        """No rows."""
        return []

    def caption(self) -> str:
        """View, and that there are no rows."""
        return f"{self.view.name}: no matching rows; {_source(self)}"

    def with_touched(self) -> pa.Table:
        """No rows."""
        return self.table


@dataclass(frozen=True)
class Failed:
    """No answer; `reason` is one sentence for the user."""

    reason: str


Outcome = Value | Absent | Failed


def _source(answer: Value | Absent) -> str:
    """The layer and publication of an answer, and how exact it is."""
    return f"{answer.provenance.layer} of {answer.provenance.whose}, {answer.provenance.exactness.says}"


def answered(
    view: View, table: pa.Table, touched: pa.ChunkedArray | None, provenance: Provenance, *, total: int
) -> Value | Absent:
    """The outcome of rows; `provenance` is that of all rows of the view, and stays if a limit leaves none of them."""
    if not total:
        return Absent(view, provenance.of(touched=False))
    told = provenance.of(touched=not table.num_rows or any_touched(touched))
    return Value(view, table, total, told, touched if told.exactness.marked else None)


def given(outcome: Outcome) -> Value | Absent:
    """The answer, or ReadFailed with the reason when there is none."""
    if isinstance(outcome, Failed):
        raise ReadFailed(outcome.reason)
    return outcome


def document(outcome: Value | Absent, *, now: datetime) -> dict[str, Any]:
    """The answer as the JSON document of `query`: view, rows and provenance."""
    return {"view": outcome.view.name, "rows": outcome.rows(), "provenance": outcome.provenance.to_json(now=now)}
