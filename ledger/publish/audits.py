"""Audits: what was served just before a recompute, compared with what its batch found over the same range of the log.

One for each run, view and measure, over the range that the speed layer had counted, which may be shorter than the run's. A view
that cannot be compared has one without a measure, with the obstacle:

* `bridge`: the speed layer has not processed any of the range;
* `damage`: files of the served batch views are missing or torn;
* `gap`: offsets of the range are lost.

A condition that a view expects of its rows has one, too, without a measure.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, Row
from tandem.ledger.log.positions import Position
from tandem.views.condition_result import ConditionResult

Obstacle = Literal["bridge", "damage", "gap"]


@dataclass(frozen=True)
class AuditFigures:
    """How the answers of one measure differ.

    Args:
        rows: the number of compared answers.
        unequal: how many are not the same.
        differ: how many differ by more than the tolerance.
        largest: the largest absolute error.
        mean: the mean absolute error.
        smape: the symmetric mean absolute percentage error, from 0 to 2.
        tolerance: a fraction of the larger answer; for quantiles a distance of ranks as a fraction of all values, unless the view
            declares one.
        cause: what explains the differences (tandem.views.verify.cause).
        examples: JSON objects of `row`, `served`, `found` and `only`, the one side that has the row.
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
    """What one run found for one measure of a view over `[start, end)` of the log, compared with the publication `served`.

    `version` is the batch version that was built, published or not. For a view that was not compared `figures` is None, `measure`
    is empty, and `obstacle` is the reason; or `expectation` is the result of a condition over all rows below `end`.
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
    figures: AuditFigures | None = None
    expectation: ConditionResult | None = None


SCHEMA: Final = pa.schema([("at", pa.timestamp("us", "UTC")), ("version", pa.int64()), ("audits", pa.string())])
"""One row a run, so that all of its audits land or none. `audits` is JSON."""


@dataclass
class Audits:
    """The audits of all runs. Their journal is opened once: a read polls for what is new."""

    tables: Tables
    journal: Journal = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.tables, self.tables.control("audits"), SCHEMA)

    def record(self, audits: Sequence[Audit]) -> None:
        """Add the audits of one run to the history; nothing if there are none. Raises Unreadable, Unwritable."""
        if audits:
            first = audits[0]
            row = {"at": first.at, "version": first.version, "audits": json.dumps([_to_json(audit) for audit in audits])}
            self.journal.add(lambda _: row)

    def history(self, *, view: str | None = None, measure: str | None = None) -> list[Audit]:
        """All audits, of one view and measure if given, oldest first. An audit with an obstacle belongs to every measure."""
        found = [_from_json(row, one) for row in self.journal.read().rows() for one in json.loads(row["audits"])]
        return [
            each for each in found if view in (None, each.view) and (measure in (None, each.measure) or each.obstacle is not None)
        ]


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
        "expectation": None if audit.expectation is None else vars(audit.expectation),
    }


def _from_json(row: Row, document: Mapping[str, Any]) -> Audit:
    figures, expectation = document["figures"], document.get("expectation")
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
        None if figures is None else AuditFigures(**{**figures, "examples": tuple(figures["examples"])}),
        None if expectation is None else ConditionResult(**{**expectation, "worst": tuple(expectation["worst"])}),
    )
