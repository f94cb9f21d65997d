"""Positions in a log: per partition the next offset to read.

Positions form a lattice under component-wise comparison. A missing partition means the log's first offset, whatever that is: it
lies at or below every offset, so it compares as offset 0 (Kafka's smallest), and an entry of 0 is dropped. Equal positions are
then equal values, and a later partition or topic changes no stored position. The real first offset is known where the log is
read, not here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Offsets, Partition, Ranges


@dataclass(frozen=True)
class Position(Mapping[Partition, int]):
    """A frozen mapping of partition to the next offset, in one normal form: sorted, without zeros. Create it with `of`."""

    offsets: tuple[tuple[Partition, int], ...] = ()

    @classmethod
    def of(cls, offsets: Offsets) -> Self:
        """The position at these offsets. Raises TandemError for a negative offset."""
        for (topic, partition), offset in offsets.items():
            if offset < 0:
                raise TandemError(f"invalid offset {offset} of partition {partition} of topic {topic}; expected 0 or more")
        return cls(tuple(sorted((partition, offset) for partition, offset in offsets.items() if offset)))

    @classmethod
    def from_json(cls, document: Mapping[str, Mapping[str, int]]) -> Self:
        """Inverse of `to_json`."""
        return cls.of(
            {
                (topic, int(partition)): offset
                for topic, partitions in document.items()
                for partition, offset in partitions.items()
            }
        )

    def to_json(self) -> dict[str, dict[str, int]]:
        """A JSON document `{topic id: {partition: offset}}`, sorted by topic id and partition."""
        document: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in self.offsets:
            document.setdefault(topic, {})[str(partition)] = offset
        return document

    def at_or_below(self, other: "Position") -> bool:
        """Whether every component is at or below that of `other`. The order is partial: two positions may not be comparable."""
        return all(offset <= other.get(partition, 0) for partition, offset in self.offsets)

    @cached_property
    def _by_partition(self) -> dict[Partition, int]:
        return dict(self.offsets)

    def __getitem__(self, partition: Partition) -> int:
        return self._by_partition[partition]

    def __iter__(self) -> Iterator[Partition]:
        return (partition for partition, _ in self.offsets)

    def __len__(self) -> int:
        return len(self.offsets)

    def __str__(self) -> str:
        """The short form in error messages: `{T/0: 5, T/1: 7}`, or "the log's start"."""
        if not self.offsets:
            return "the log's start"
        return "{" + ", ".join(f"{topic}/{partition}: {offset}" for (topic, partition), offset in self.offsets) + "}"


LOG_START: Final = Position()
"""The log's first offset on every partition, known or not."""


def upper(*positions: Position) -> Position:
    """The smallest position that all of these are at or below: the component-wise maximum."""
    offsets: dict[Partition, int] = {}
    for position in positions:
        for partition, offset in position.offsets:
            offsets[partition] = max(offset, offsets.get(partition, 0))
    return Position.of(offsets)


def lower(*positions: Position) -> Position:
    """The largest position at or below all of these: the component-wise minimum. Of none, the log's start."""
    first, *rest = positions or (LOG_START,)
    return Position.of({p: min(offset, *(other.get(p, 0) for other in rest)) if rest else offset for p, offset in first.items()})


def ranges(start: Position, end: Position, firsts: Offsets | None = None) -> Ranges:
    """The offsets of `[start, end)`.

    `firsts` gives the log's first offsets where they are known, for partitions that `start` lacks; else they count as 0.
    Raises TandemError if `end` does not lie at or above `start` on every partition.
    """
    if not start.at_or_below(end):
        raise TandemError(f"[{start}, {end}) is not a range: its end must lie at or above its start on every partition")
    known = firsts or {}
    return Ranges.of({p: (start.get(p, min(known.get(p, 0), to)), to) for p, to in end.items()})


def must_await(reached: Position, end: Position) -> bool:
    """Whether `end` lacks offsets of `reached` that it comes to as the log is counted on.

    It does not come to those of a topic that was deleted: then it counts another topic.
    """
    topics = {topic for topic, _ in reached}
    return not reached.at_or_below(end) and topics.issuperset(topic for topic, _ in end)


def distance(start: Position, end: Position) -> int:
    """How many offsets `end` is above `start`, summed over the partitions where it is above."""
    return sum(max(0, offset - start.get(partition, 0)) for partition, offset in end.items())
