"""Gaps: offsets that the log no longer has and the archive never got, each recorded once and by name."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import pyarrow as pa

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.journal import Journal, JournalSnapshot, Row
from tandem.ledger.log.positions import Position
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Ranges


class UnknownGap(TandemError, code="gap-unknown"):
    """No gap has this name."""


class GapNotAccepted(TandemError, code="gap-not-accepted"):
    """A gap was not accepted by its name."""


@dataclass(frozen=True)
class Gap:
    """Offsets of a source that are lost; `reason` is why they count as lost and not as a harmless hole."""

    name: str
    source: str
    ranges: Ranges
    reason: str
    at: datetime

    @property
    def way_on(self) -> str:
        """What is lost and how to continue, in one sentence, for every report of the gap."""
        return (
            f"gap {self.name} of source {self.source!r}: {self.ranges.length} offsets are lost ({self.reason}); `tandem "
            f"recompute --accept-gap {self.name}` continues without these records"
        )


SCHEMA: Final = pa.schema(
    [
        ("name", pa.string()),
        ("source", pa.string()),
        ("ranges", pa.string()),
        ("reason", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
    ]
)


@dataclass
class Gaps:
    """The recorded gaps of all sources. Their journal is opened once: a read polls for what is new."""

    tables: Tables
    journal: Journal = field(init=False, repr=False)
    _every: tuple[JournalSnapshot | None, tuple[Gap, ...]] = field(default=(None, ()), init=False, repr=False)

    def __post_init__(self) -> None:
        self.journal = Journal(self.tables, self.tables.control("gaps"), SCHEMA)

    def record(self, source: str, ranges: Ranges, *, reason: str, at: datetime) -> Gap:
        """Record a gap under the name `<source>-gap-<n>`; the same ranges of a source again are the same gap."""
        found: list[Gap] = []

        def row(snapshot: JournalSnapshot) -> Row | None:
            known = [gap for gap in map(_gap, snapshot.rows()) if gap.source == source]
            same = next((gap for gap in known if gap.ranges == ranges), None)
            if same is not None:
                found.append(same)
                return None
            name = f"{source}-gap-{len(known) + 1}"
            return {"name": name, "source": source, "ranges": json.dumps(ranges.to_json()), "reason": reason, "at": at}

        stored = self.journal.add(row)
        return found[-1] if stored is None else _gap(stored)

    def every(self) -> tuple[Gap, ...]:
        """All gaps in the order in which they were recorded, the same object if nothing is new. Raises Unreadable."""
        snapshot = self.journal.read()
        if self._every[0] is not snapshot:
            self._every = snapshot, tuple(map(_gap, snapshot.rows()))
        return self._every[1]

    def of(self, source: str) -> list[Gap]:
        """The gaps of one source. Raises Unreadable."""
        return [gap for gap in self.every() if gap.source == source]


def refuse_unaccepted(found: list[Gap], accepted: tuple[str, ...]) -> None:
    """Raise UnknownGap for an accepted name that no gap has, GapNotAccepted for a gap that was not accepted by name."""
    names = {gap.name for gap in found}
    for name in accepted:
        if name not in names:
            raise UnknownGap(f"unknown gap {name!r}; gaps: {', '.join(sorted(names)) or 'none'}")
    for gap in found:
        if gap.name not in accepted:
            raise GapNotAccepted(gap.way_on)


def touching(gaps: Iterable[Gap], source: str, start: Position, end: Position) -> tuple[Gap, ...]:
    """The gaps of a source that have an offset in `[start, end)`."""

    def touches(gap: Gap) -> bool:
        return any(
            first < end.get(partition, 0) and to > start.get(partition, 0)
            for partition, intervals in gap.ranges.intervals
            for first, to in intervals
        )

    return tuple(gap for gap in gaps if gap.source == source and touches(gap))


def _gap(row: Row) -> Gap:
    return Gap(row["name"], row["source"], Ranges.from_json(json.loads(row["ranges"])), row["reason"], row["at"])
