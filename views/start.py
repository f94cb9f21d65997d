"""Where in the log a source starts: as its definition declares it, and as the positions that this became once.

Kafka finds the first record of each partition with a timestamp at or after a time, and so does `first_at`. A record's position
never changes, so which records are before the start is a function of positions: every layer computes the same numbers.

Rows of a table that has the offsets of its rows keep these as their positions, in the topic PLACED. They are the log's records
below the start, so such a row counts below the start of its partition, and never from then on.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tandem.views.arrow.python_values import scalar
from tandem.views.errors import DefinitionError, listed
from tandem.views.instant import utc_text
from tandem.views.source.offset_ranges import Partition, Ranges

NOW: Final = "now"
PLACED: Final = "placed-rows"
"""The topic id of rows of a table whose partitions and offsets are those that their records had in the source's topic."""

TopicStarts = tuple[tuple[str, tuple[tuple[int, int], ...]], ...]
"""Offsets by topic name and partition, in order."""

DeclaredStart = datetime | Literal["now"] | Mapping[int, int] | Mapping[str, Mapping[int, int]]

_FORMS: Final = 'a time with a zone, "now", or the first offsets by partition, such as {0: 1200}'


@dataclass(frozen=True)
class StartPositions:
    """The first offset that counts of each partition, and the `declared` start from which it follows, as text.

    A partition that is not among `offsets` counts from its first record: it did not exist when the start was resolved. `topics`
    are the names of the topics that the source then had.
    """

    declared: str
    topics: tuple[str, ...]
    offsets: tuple[tuple[Partition, int], ...]

    @classmethod
    def of(cls, declared: str, topics: tuple[str, ...], offsets: Mapping[Partition, int]) -> "StartPositions":
        """The positions in their one order."""
        return cls(declared, topics, tuple(sorted(offsets.items())))

    @property
    def table_ends(self) -> dict[int, int]:
        """By partition the offset from which on rows of PLACED do not count."""
        ends: dict[int, int] = {}
        for (_, number), first in self.offsets:
            ends[number] = max(first, ends.get(number, 0))
        return ends

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "StartPositions":
        """Inverse of `to_json`."""
        offsets = {(topic, int(number)): first for topic, of in document["offsets"].items() for number, first in of.items()}
        return cls.of(document["declared"], tuple(document["topics"]), offsets)

    def to_json(self) -> dict[str, Any]:
        """The declared start, the topics, and the offsets by topic id and partition."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, number), first in self.offsets:
            offsets.setdefault(topic, {})[str(number)] = first
        return {"declared": self.declared, "topics": list(self.topics), "offsets": offsets}

    def __str__(self) -> str:
        """The start for a person: `2026-11-01T00:00:00+00:00, which is {T/0: 1200}`."""
        offsets = ", ".join(f"{topic}/{number}: {first}" for (topic, number), first in self.offsets)
        return f"{self.declared}, which is {{{offsets}}}"


def normal_start(start: object, topics: Sequence[str]) -> datetime | str | TopicStarts | StartPositions | None:
    """A declared start in its one form, which can be hashed. Raises DefinitionError."""
    if start is None or start == NOW or isinstance(start, StartPositions):
        return start
    if isinstance(start, datetime):
        if start.tzinfo is None:
            raise DefinitionError(f"start {start.isoformat()} has no zone: add one, such as tzinfo=UTC")
        return start
    if isinstance(start, tuple):
        with suppress(TypeError, ValueError):  # a tuple in another form is refused below
            start = {topic: dict(offsets) for topic, offsets in start}
    if not isinstance(start, Mapping) or not start:
        raise DefinitionError(f"start {start!r} is not {_FORMS}")
    if not topics:
        raise DefinitionError(
            f"start {start!r} gives offsets, and the source's topics are those that match a pattern: its start is a time with a "
            'zone, or "now"'
        )
    if not any(isinstance(offsets, Mapping) for offsets in start.values()):
        if len(topics) > 1:
            raise DefinitionError(f"start {start!r} does not name topics: the source has {', '.join(topics)}")
        start = {topics[0]: start}
    for topic, offsets in start.items():
        if topic not in topics:
            raise DefinitionError(f"start: the source has no topic {topic!r}; topics: {listed(str(topic), topics)}")
        numbers = offsets.items() if isinstance(offsets, Mapping) else ()
        if not numbers or not all(type(number) is int and number >= 0 for pair in numbers for number in pair):
            raise DefinitionError(f"start of topic {topic!r}: {offsets!r} is not first offsets by partition, such as {{0: 1200}}")
    return tuple((topic, tuple(sorted(start[topic].items()))) for topic in sorted(start))


def start_text(start: datetime | str | TopicStarts | StartPositions) -> str:
    """A declared start as text: equal texts mean equal starts of one source."""
    if isinstance(start, StartPositions):
        return start.declared
    if isinstance(start, datetime):
        return utc_text(start.astimezone(UTC))
    if isinstance(start, str):
        return start
    return json.dumps({topic: {str(number): first for number, first in offsets} for topic, offsets in start})


def start_document(start: object) -> dict[str, Any] | None:
    """A start as a JSON object: as declared, with its topics and offsets once they are resolved; None without a start."""
    if isinstance(start, StartPositions):
        return start.to_json()
    return None if start is None else {"declared": start_text(start), "topics": None, "offsets": None}  # type: ignore[arg-type]


def start_sentence(start: Mapping[str, Any]) -> str:
    """The document of a start for a person."""
    if start["offsets"] is None:
        return f"from {start['declared']} on; `tandem apply` turns it into offsets"
    offsets = ", ".join(f"{topic}/{number}: {first}" for topic, of in start["offsets"].items() for number, first in of.items())
    return f"from {start['declared']} on, which is {{{offsets}}}"


def before_start(start: object, topics: pa.Array, partitions: pa.Array, offsets: pa.Array) -> pa.Array | None:
    """Per record, whether the start leaves it out: a record before it, and a row of PLACED from it on.

    None without a start, which leaves out no record.
    """
    if not isinstance(start, StartPositions) or not start.offsets:
        return None
    early = np.zeros(len(offsets), dtype=bool)
    for (topic, number), first in start.offsets:
        here = pc.and_(pc.equal(topics, topic), pc.equal(partitions, scalar(number, partitions.type)))
        early |= pc.and_(here, pc.less(offsets, first)).to_numpy(zero_copy_only=False)
    placed = pc.equal(topics, PLACED)
    if placed.true_count:
        ends = np.array([start.table_ends.get(number, 0) for number in partitions.to_pylist()])
        early |= pc.and_(placed, pc.greater_equal(offsets, pa.array(ends))).to_numpy(zero_copy_only=False)
    return pa.array(early, pa.bool_())


def below(start: object, covered: Ranges) -> Ranges:
    """The offsets of these ranges that the start leaves out."""
    if not isinstance(start, StartPositions) or not start.offsets:
        return Ranges()
    firsts, table = dict(start.offsets), start.table_ends
    pieces = [
        Ranges.of({partition: (max(low, table.get(partition[1], 0)), end)})
        if partition[0] == PLACED
        else Ranges.of({partition: (low, min(end, firsts[partition]))})
        for partition, intervals in covered.intervals
        for low, end in intervals
        if (table.get(partition[1], 0) < end if partition[0] == PLACED else low < firsts.get(partition, 0))
    ]
    return Ranges().union(*pieces)


def first_at(time: datetime, offsets: pa.Array, timestamps: pa.Array) -> int | None:
    """The least of these offsets whose record has a timestamp at or after a time; None if no record has."""
    late = pc.filter(offsets, pc.greater_equal(timestamps, scalar(time, timestamps.type)))
    first = pc.min(late).as_py()
    return None if first is None else int(first)
