"""Tandem's answers in a Python program: `connect("my_shop").view("sales").rows(keys={"city": "OSLO"})`."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra import settings
from ledger.tables import Tables
from serving.outcome import Outcome, given
from serving.provenance import Layer
from serving.reader import Reader
from serving.selection import ALWAYS, Between


@dataclass(frozen=True)
class Connection:
    """The published views of one project, for one thread at a time."""

    reader: Reader

    def view(self, name: str) -> "PublishedView":
        """A view by name. Raises UnknownView, and ReadFailed if nothing can be read."""
        self.reader.view(name)
        return PublishedView(self.reader, name)


@dataclass(frozen=True)
class PublishedView:
    """One published view; every question is answered at the newest position that there is."""

    reader: Reader
    name: str

    def rows(
        self,
        keys: Mapping[str, object] | None = None,
        *,
        between: Between = ALWAYS,
        layer: Layer = "merged",
        limit: int | None = None,
    ) -> list[dict[str, Any]]:
        """The rows as flat dicts, ordered by window start, then keys; none if nothing was counted. Raises ReadFailed."""
        return given(self.ask(keys, between=between, layer=layer, limit=limit)).rows()

    def ask(
        self,
        keys: Mapping[str, object] | None = None,
        *,
        between: Between = ALWAYS,
        layer: Layer = "merged",
        limit: int | None = None,
    ) -> Outcome:
        """The rows as an Arrow table with their provenance, the certainty that there are none, or why neither.

        `keys` gives values by key name, None for NULL; `between` bounds window starts, `[from, to)`.
        """
        self.reader.refresh()
        return self.reader.answer(self.name, keys=keys, between=between, layer=layer, limit=limit)


def connect(project: str | Path) -> Connection:
    """The published views of the project in a folder, with its settings; neither Spark nor the broker is needed."""
    return Connection(Reader(Tables(settings.load(Path(project), os.environ).state)))
