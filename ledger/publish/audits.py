"""The audits: what merged answers had said just before a recompute, beside what its batch found over the same range of the log.

One per run, view and measure, over the range as far as the speed layer had come, which may be less than the run's; of a view that
cannot be compared one without a measure, which says why: `bridge` (all of the range went past the speed layer), `damage` (files
of the batch views that were served are missing or torn) or `gap` (offsets of it are lost).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import pyarrow as pa

from ledger.delta.addresses import Tables
from ledger.delta.journal import Journal, Row
from ledger.log.positions import Position

Obstacle = Literal["bridge", "damage", "gap"]


@dataclass(frozen=True)
class Figures:
    """Of `rows` answers `unequal` are not the same and `differ` by more than `tolerance`, a part of the larger answer.

    Of quantiles the tolerance is a distance of ranks, a part of all values, unless the view declares one.

    `largest` and `mean` are absolute errors; `smape` is the symmetric mean absolute percentage error, from 0 to 2. `examples`
    are JSON objects of `row`, `served`, `found` and `only`, the side that alone has the row.
    """

    rows: int
    unequal: int
    differ: int
    largest: float
    mean: float
    smape: float
    tolerance: float
    cause: str
    examples: tuple[Mapping[str, Any], ...] = field(default=(), hash=False)


@dataclass(frozen=True)
class Audit:
    """What one run found of one measure of a view over `[start, end)` of the log, compared with the publication `served`.

    `version` is the batch version that was built, whether it was published then or not. Of a view that was not compared
    `figures` is None, `measure` is empty, and `obstacle` says why.
    """

    at: datetime
    version: int
    served: int
    release: int
    view: str
    measure: str
    start: Position
    end: Position
    obstacle: Obstacle | None = None
    figures: Figures | None = None


SCHEMA: Final = pa.schema([("at", pa.timestamp("us", "UTC")), ("version", pa.int64()), ("audits", pa.string())])
"""One row a run, so that its audits land together or not at all. They are JSON."""


def record(tables: Tables, audits: Sequence[Audit]) -> None:
    """Add the audits of one run to the history; nothing if there are none. Raises Unreadable, Unwritable."""
    if audits:
        first = audits[0]
        row = {"at": first.at, "version": first.version, "audits": json.dumps([_to_json(audit) for audit in audits])}
        _journal(tables).add(lambda _: row)


def history(tables: Tables, *, view: str | None = None, measure: str | None = None) -> list[Audit]:
    """All audits, of one view and measure if given, oldest first; those that could not be compared are of every measure."""
    found = [_from_json(row, one) for row in _journal(tables).read().rows() for one in json.loads(row["audits"])]
    return [each for each in found if view in (None, each.view) and (each.figures is None or measure in (None, each.measure))]


def _journal(tables: Tables) -> Journal:
    return Journal(tables, tables.control("audits"), SCHEMA)


def _to_json(audit: Audit) -> dict[str, Any]:
    return {
        "served": audit.served,
        "release": audit.release,
        "view": audit.view,
        "measure": audit.measure,
        "start": audit.start.to_json(),
        "end": audit.end.to_json(),
        "obstacle": audit.obstacle,
        "figures": None if audit.figures is None else vars(audit.figures),
    }


def _from_json(row: Row, document: Mapping[str, Any]) -> Audit:
    figures = document["figures"]
    return Audit(
        row["at"],
        row["version"],
        document["served"],
        document["release"],
        document["view"],
        document["measure"],
        Position.from_json(document["start"]),
        Position.from_json(document["end"]),
        document["obstacle"],
        None if figures is None else Figures(**{**figures, "examples": tuple(figures["examples"])}),
    )
