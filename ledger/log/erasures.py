"""Erasures: the records that `tandem forget` erases, and those that a source keeps no longer, by position and stage.

The positions are recorded before anything is removed, so that a run that was killed is finished by the next one, and so that
nothing brings the records back. Neither the condition nor a value of the records is stored.
"""

import json
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, Literal

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.views.errors import TandemError, listed
from tandem.views.source.offset_ranges import EMPTY, Ranges

ErasureStage = Literal["intended", "removed", "refolded", "erased", "expiring", "expired"]
"""intended: the positions are recorded. removed: no row of archive, events and quarantine has them. refolded: `publication`
counts without them. erased: the files that had them are deleted.

Of records that a source keeps no longer: expiring as intended, expired as removed. No view needs them, so none is refolded."""

_UNREMOVED: Final = ("intended", "expiring")


class UnfinishedErasure(TandemError, code="erasure-unfinished"):
    """An erasure has not removed all of its records from the tables of the log yet."""


class UnknownErasure(TandemError, code="erasure-unknown"):
    """No erasure has this name."""


@dataclass(frozen=True)
class Erasure:
    """The positions of erased records of a source.

    Args:
        publication: the first one without them; 0 before it exists, and of records that a source keeps no longer.
        until: the greatest event time of records that a source keeps no longer; None if none of them had an event.
    """

    name: str
    source: str
    stage: ErasureStage
    ranges: Ranges
    publication: int
    at: datetime
    by: str
    until: datetime | None = None

    @property
    def of_keep(self) -> bool:
        """Whether the source keeps the records no longer; else `tandem forget` erases them."""
        return self.stage in ("expiring", "expired")

    @property
    def complete(self) -> bool:
        """Whether its last stage is reached."""
        return self.stage in ("erased", "expired")


SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("source", pa.string()),
        ("stage", pa.string()),
        ("ranges", pa.string()),
        ("publication", pa.int64()),
        ("at", pa.timestamp("us", "UTC")),
        ("by", pa.string()),
        ("until", pa.timestamp("us", "UTC")),
    ]
)
"""One row for each stage of an erasure; each repeats the ranges, as JSON."""


@dataclass
class Erasures:
    """The erasures of all sources. Their journal is opened once: a read polls for what is new."""

    tables: Tables
    journal: Journal = field(init=False, repr=False)
    _every: tuple[JournalSnapshot | None, tuple[Erasure, ...]] = field(default=(None, ()), init=False, repr=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.tables, self.tables.control("erasures"), SCHEMA)

    def every(self) -> tuple[Erasure, ...]:
        """All erasures at their newest stage, in the order in which they were intended. Raises Unreadable."""
        snapshot = self.journal.read()
        if self._every[0] is not snapshot:
            self._every = snapshot, tuple({row["name"]: _erasure(row) for row in snapshot.rows()}.values())
        return self._every[1]

    def of(self, source: str) -> list[Erasure]:
        """The erasures of one source. Raises Unreadable."""
        return [erasure for erasure in self.every() if erasure.source == source]

    def to_finish(self, source: str) -> list[Erasure]:
        """The erasures of a source that the next `tandem forget` has to finish. Raises Unreadable."""
        return [erasure for erasure in self.of(source) if not (erasure.complete or erasure.of_keep)]

    def until(self, source: str) -> datetime | None:
        """The greatest event time of records that a source keeps no longer; None without any. Raises Unreadable."""
        return max((erasure.until for erasure in self.of(source) if erasure.until is not None), default=None)

    def load(self, name: str) -> Erasure:
        """The erasure of this name. Raises UnknownErasure, Unreadable."""
        by_name = {erasure.name: erasure for erasure in self.every()}
        if name not in by_name:
            raise UnknownErasure(f"unknown erasure {name!r}; erasures: {listed(name, by_name)}")
        return by_name[name]

    def ranges(self, source: str) -> Ranges:
        """The positions of all records of a source that are erased, or are to be. Raises Unreadable."""
        return EMPTY.union(*(erasure.ranges for erasure in self.of(source)))

    def count_within(self, source: str, covered: Ranges) -> int:
        """How many records of these ranges are erased. Raises UnfinishedErasure if some of them are still being removed."""
        for erasure in self.of(source):
            if erasure.stage in _UNREMOVED and erasure.ranges.within(covered).length:
                command = "maintain" if erasure.of_keep else f"forget {source} --finish --yes"
                raise UnfinishedErasure(
                    f"erasure {erasure.name} is unfinished, so some tables have records that others lack; run `tandem {command}` "
                    "first"
                )
        return self.ranges(source).within(covered).length

    def first_publication(self) -> Erasure | None:
        """The erasure whose publication is the newest one: earlier publications are retired. None without any."""
        refolded = [erasure for erasure in self.every() if erasure.publication]
        return max(refolded, key=lambda erasure: erasure.publication, default=None)

    def intend(
        self,
        source: str,
        ranges: Ranges,
        *,
        by: str,
        at: datetime,
        stage: ErasureStage = "intended",
        until: datetime | None = None,
    ) -> Erasure | None:
        """Record an erasure of these positions under the name `<source>-erasure-<n>`; None if all of them are recorded already.

        An import records the last stage: the records were erased elsewhere. Raises Unwritable.
        """

        def row(snapshot: JournalSnapshot) -> Row | None:
            there = {stored["name"]: _erasure(stored) for stored in snapshot.rows() if stored["source"] == source}
            new = ranges.without(EMPTY.union(*(erasure.ranges for erasure in there.values())))
            name = f"{source}-erasure-{len(there) + 1}"
            return _row(Erasure(name, source, stage, new, 0, at, by, until)) if new.length else None

        stored = self.journal.add(row)
        return None if stored is None else _erasure(stored)

    def advance(self, erasure: Erasure, stage: ErasureStage, *, publication: int = 0, by: str, at: datetime) -> Erasure:
        """Record that an erasure has reached a stage. Raises Unwritable."""
        reached = replace(erasure, stage=stage, publication=publication, at=at, by=by)
        self.journal.add(lambda _: _row(reached))
        return reached


def _row(erasure: Erasure) -> Row:
    return {**vars(erasure), "ranges": json.dumps(erasure.ranges.to_json())}


def _erasure(row: Row) -> Erasure:
    ranges = Ranges.from_json(json.loads(row["ranges"]))
    return Erasure(row["name"], row["source"], row["stage"], ranges, row["publication"], row["at"], row["by"], row["until"])
