"""The outcomes of the records of a range, counted: what answers, `status` and audits show of a source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Counts:
    """Counts over one range of one source; they add up over disjoint ranges.

    Records, records that are quarantined whole, records of other sources, skipped ones, erased ones and holes make the length of
    the range.

    Args:
        events: decoded and counted events.
        quarantined: rejected records, and events of lists that are rejected alone, by reason.
        holes: offsets without a record: transaction markers, aborted records, compacted records.
        late: events behind their partition's newest event time by more than the lateness.
        ahead: events ahead of their record's timestamp (tandem.views.source.watermark), with duplicates: both layers agree.
        off_calendar: events whose record has a timestamp before 1582-10-15 or after the year 9999, with duplicates.
        rounded: values of events, duplicates included, that were rounded to the scale of their field.
        duplicates: events dropped by identity.
        conflicts: duplicates with a content that none of their identity had before (tandem.views.kernel.deduplicate).
        others: records of other sources in the same topics.
        further: events, duplicates and events rejected alone that are not the first of their record; only lists have them.
        skipped: records before the source's start, and tombstones, where the source skips them.
        rejected_events: of the quarantined, the events of lists that are rejected alone.
        erased: records that `tandem forget` has erased, and offsets of which the source keeps no records: neither event nor
            reject, and no hole.
    """

    events: int = 0
    quarantined: Mapping[str, int] = field(default_factory=dict, hash=False)
    holes: int = 0
    late: int = 0
    ahead: int = 0
    duplicates: int = 0
    conflicts: int = 0
    others: int = 0
    further: int = 0
    off_calendar: int = 0
    rejected_events: int = 0
    skipped: int = 0
    rounded: int = 0
    erased: int = 0

    @property
    def records(self) -> int:
        """The records that decoded: to an event, or to a list, whichever of its events are rejected alone."""
        return self.events + self.duplicates + self.rejected_events - self.further

    @property
    def rejects(self) -> int:
        """The records, and single events of lists, in quarantine, for any reason."""
        return sum(self.quarantined.values())

    @property
    def whole_rejects(self) -> int:
        """The records that are in quarantine whole."""
        return self.rejects - self.rejected_events

    @property
    def offsets(self) -> int:
        """The length of the range."""
        return self.records + self.whole_rejects + self.others + self.skipped + self.erased + self.holes

    def to_json(self) -> dict[str, Any]:
        """A JSON object of the fields."""
        return {
            "events": self.events,
            "quarantined": dict(sorted(self.quarantined.items())),
            "holes": self.holes,
            "late": self.late,
            "ahead": self.ahead,
            "duplicates": self.duplicates,
            "conflicts": self.conflicts,
            "others": self.others,
            "further": self.further,
            "off_calendar": self.off_calendar,
            "rejected_events": self.rejected_events,
            "skipped": self.skipped,
            "rounded": self.rounded,
            "erased": self.erased,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Counts":
        """Inverse of `to_json`."""
        return cls(**document)


NOTHING: Final = Counts()


def plus(*several: Counts) -> Counts:
    """The counts of the united ranges; of none, NOTHING."""
    return Counts(
        events=sum(counts.events for counts in several),
        quarantined=add(*(counts.quarantined for counts in several)),
        holes=sum(counts.holes for counts in several),
        late=sum(counts.late for counts in several),
        ahead=sum(counts.ahead for counts in several),
        duplicates=sum(counts.duplicates for counts in several),
        conflicts=sum(counts.conflicts for counts in several),
        others=sum(counts.others for counts in several),
        further=sum(counts.further for counts in several),
        off_calendar=sum(counts.off_calendar for counts in several),
        rejected_events=sum(counts.rejected_events for counts in several),
        skipped=sum(counts.skipped for counts in several),
        rounded=sum(counts.rounded for counts in several),
        erased=sum(counts.erased for counts in several),
    )


def add(*several: Mapping[str, int]) -> dict[str, int]:
    """Add numbers by name, names in order."""
    total: dict[str, int] = {}
    for numbers in several:
        for name, number in numbers.items():
            total[name] = total.get(name, 0) + number
    return dict(sorted(total.items()))
