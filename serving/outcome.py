"""The three outcomes of a read: a value, the certainty that there is none, or a failure to tell.

    Value     rows were counted
    Absent    everything up to the answer's position was looked at, and nothing of it was asked for
    Failed    what the answer needs could not be read, so nothing is claimed

An empty answer is therefore never mistaken for one that could not be given.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from serving.provenance import Provenance
from views.errors import TandemError
from views.rows import to_rows
from views.view import View


class ReadFailed(TandemError):
    """An answer that could not be given, raised where a caller wants rows or an error."""


@dataclass(frozen=True)
class Value:
    """Rows of a view, ordered by window start, then keys; `total` counts them before a limit was applied."""

    view: View
    table: pa.Table
    total: int
    provenance: Provenance

    def rows(self) -> list[dict[str, Any]]:
        """The rows as flat dicts, as `query --json` prints them."""
        return to_rows(self.view, self.table)


@dataclass(frozen=True)
class Absent:
    """No row was counted for what was asked."""

    view: View
    provenance: Provenance
    total: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """No rows."""
        return []


@dataclass(frozen=True)
class Failed:
    """Nothing can be said; `reason` is one sentence for the user."""

    reason: str


Outcome = Value | Absent | Failed


def given(outcome: Outcome) -> Value | Absent:
    """The answer, or ReadFailed with the reason when there is none."""
    if isinstance(outcome, Failed):
        raise ReadFailed(outcome.reason)
    return outcome


def document(outcome: Value | Absent, *, now: datetime) -> dict[str, Any]:
    """The answer as the JSON document of `query`: view, rows and provenance."""
    return {"view": outcome.view.name, "rows": outcome.rows(), "provenance": outcome.provenance.to_json(now=now)}
