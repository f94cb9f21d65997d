"""What became of the records of a range: the numbers that answers, `status` and the audit show beside a view."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True)
class Counts:
    """Counts over one range of one source; they add up over disjoint ranges.

    `events` decoded and kept, `quarantined` by reason, `holes` offsets that hold no record (transaction markers, aborted
    records, compaction), `late` behind their partition's newest event time, `ahead` of their record's timestamp
    (views.source.ahead), copies too, so that batch and speed always agree on it, `duplicates` dropped by identity, `conflicts`
    those among them whose content none of their identity had before (views.kernel.deduplicate), `others` records of other sources
    in the same topics. `further` are the events and duplicates that are not the first of their record, which only a record of
    a list has: records + quarantined + others + holes make the length of the range.
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

    @property
    def records(self) -> int:
        """The records that decoded."""
        return self.events + self.duplicates - self.further

    @property
    def rejects(self) -> int:
        """The records in quarantine, whatever the reason."""
        return sum(self.quarantined.values())

    @property
    def offsets(self) -> int:
        """The length of the range whose outcomes these are."""
        return self.records + self.rejects + self.others + self.holes

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
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "Counts":
        """Inverse of `to_json`; what an earlier version did not count is 0."""
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
    )


def add(*several: Mapping[str, int]) -> dict[str, int]:
    """Add numbers by name, names in order."""
    total: dict[str, int] = {}
    for numbers in several:
        for name, number in numbers.items():
            total[name] = total.get(name, 0) + number
    return dict(sorted(total.items()))
