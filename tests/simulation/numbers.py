"""A log of numbers, the project that counts and adds them by minute, and its expected answers: the plain oracle."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

import numpy as np

from tandem.ledger.log.positions import Position
from tandem.speed.dedup.keys import KEY, Keys
from tandem.speed.dedup.within_task import Identities
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.offset_ranges import Partition, Ranges
from tandem.views.source.watermark import Newest

SOURCE = "numbers"
TOPIC = "T"
DEFINITIONS = """
from datetime import datetime

import msgspec
from tandem import Event, Source, View, count, total, tumbling


class Number(Event):
    id: int
    at: datetime
    value: int
    {field}


numbers = Source(topic="numbers", event=Number, event_time="at", identity=("id",))
MEASURES = {{"n": count(), "total": total("value")}}
{views}
SOURCES = (numbers,)
VIEWS = ({names},)
"""
_NOTE = "note: str | None = None"
_PLACE = "place: str = msgspec.field(default_factory=lambda: '')"
FIELDS = ("", _NOTE, f"{_NOTE}; {_PLACE}", f"{_NOTE}; {_PLACE}; weather: str | None = None")
"""Each is another decoder, and so another meaning of every view. Views continue at the second and the fourth: what they gain
is optional, and no view reads it.
"""
NAMES = (
    ("every", "chosen"),
    ("every", "picked"),
    ("every", "chosen", "again"),
    ("picked", "every"),
    ("picked", "every", "again"),
)
"""What a project calls its views: the first and the third count every event, the second chosen ones. By some a view is renamed,
takes another's name, or has the name that another's table was made for.
"""
LEAST = (3, 5)
MINUTES = 5
"""Events fall into so many windows."""
BEGIN = datetime(2026, 11, 1, 12, tzinfo=UTC)

States = Mapping[int, tuple[int, int]]
"""By minute the number of events and their sum; no minute without events."""


@dataclass(frozen=True)
class Event:
    """What a record holds: the minute that it falls into, its value and identity; its timestamp, in microseconds.

    Copies have equal minutes and values, and timestamps of their own.
    """

    minute: int
    value: int
    appended: int
    id: int

    @property
    def at(self) -> datetime:
        return BEGIN + timedelta(minutes=self.minute)


Found = tuple[Partition, int, Event]
"""An event with its partition and offset."""


@dataclass
class Log:
    """The topic: per partition its offsets, None where one holds no record, and the first offset that it still has.

    What retention deletes stays in the lists, and `former` has what topics held that are gone, so that the oracle remembers it.
    """

    partitions: list[list[Event | None]] = field(default_factory=lambda: [[], [], []])
    starts: dict[int, int] = field(default_factory=dict)
    topic: str = TOPIC
    former: dict[Partition, list[Event | None]] = field(default_factory=dict)

    def copy(self) -> "Log":
        return Log([[*records] for records in self.partitions], {**self.starts}, self.topic, {**self.former})

    @property
    def places(self) -> list[Partition]:
        return [(self.topic, number) for number in range(len(self.partitions))]

    @property
    def end(self) -> Position:
        return Position.of({(self.topic, number): len(records) for number, records in enumerate(self.partitions)})

    @property
    def ever(self) -> dict[Partition, list[Event | None]]:
        """What each partition has or had, of this topic and of those before it."""
        return {**self.former, **dict(zip(self.places, self.partitions, strict=True))}

    def make_anew(self, topic: str, partitions: int) -> None:
        """The topic is deleted, and another one gets its name."""
        self.former = self.ever
        self.topic, self.partitions, self.starts = topic, [[] for _ in range(partitions)], {}

    def within(self, ranges: Ranges) -> Iterable[Found]:
        """The events of these offsets, each with partition and offset, of a log that has them all."""
        for (topic, number), intervals in ranges.intervals:
            for start, _ in intervals:
                assert topic == self.topic, f"topic {topic} is gone"
                assert start >= self.starts.get(number, 0), f"offset {start} of partition {number} is gone"
        yield from self.fetched(ranges)

    def fetched(self, ranges: Ranges) -> Iterable[Found]:
        """The events of these offsets as a consumer reads them, by the topic's name, whichever topic has it by now.

        What is lost is left out without a word: that is for the caller to find.
        """
        for (topic, number), intervals in ranges.intervals:
            records = self.partitions[number] if number < len(self.partitions) else []
            for start, end in intervals:
                first = max(start, self.starts.get(number, 0))
                for offset, event in enumerate(records[first:end], first):
                    if event is not None:
                        yield (topic, number), offset, event

    def remembered(self, ranges: Ranges) -> Iterable[Found]:
        """The events of these offsets, be they lost or not."""
        ever = self.ever
        for partition, intervals in ranges.intervals:
            for start, end in intervals:
                for offset, event in enumerate(ever[partition][start:end], start):
                    if event is not None:
                        yield partition, offset, event

    def below(self, position: Position) -> Iterable[Found]:
        """The events of all offsets below: what the oracle counts."""
        for partition, records in self.ever.items():
            for offset, event in enumerate(records[: position.get(partition, 0)]):
                if event is not None:
                    yield partition, offset, event


def states(events: Iterable[Event], least: int | None) -> States:
    """What the events of at least this value come to, of all of them if that is None; each identity counts once."""
    found: dict[int, tuple[int, int]] = {}
    for event in {event.id: event for event in events}.values():
        if least is None or event.value >= least:
            n, total = found.get(event.minute, (0, 0))
            found[event.minute] = (n + 1, total + event.value)
    return found


def united(several: Iterable[States]) -> States:
    found: dict[int, tuple[int, int]] = {}
    for one in several:
        for minute, (n, total) in one.items():
            before = found.get(minute, (0, 0))
            found[minute] = (before[0] + n, before[1] + total)
    return found


def keys(ids: Iterable[int]) -> Keys:
    """The keys by which a speed layer tells these identities from others; all have the same first word."""
    return np.frombuffer(b"".join(number.to_bytes(16, "big") + b"content." for number in ids), np.uint64).reshape(-1, KEY)


def identities(events: Sequence[Event]) -> Identities:
    """What a micro-batch that counts these events hands on to the next ones."""
    return Identities(keys(event.id for event in events), np.array([event.appended for event in events], np.int64))


def encode(of: States) -> bytes:
    return json.dumps(sorted(of.items())).encode()


def decode(partial: bytes) -> States:
    return {minute: (n, total) for minute, (n, total) in json.loads(partial)}


def to_rows(of: States) -> list[dict[str, Any]]:
    """As rows of a view's table."""
    return [
        {"window_start": BEGIN + timedelta(minutes=minute), "n": n, "total": total} for minute, (n, total) in sorted(of.items())
    ]


def from_rows(rows: Sequence[Mapping[str, Any]]) -> States:
    return united({(row["window_start"] - BEGIN) // timedelta(minutes=1): (row["n"], row["total"])} for row in rows)


def maxima(found: Iterable[Found]) -> dict[Partition, Newest]:
    newest: dict[Partition, Newest] = {}
    for partition, _, event in found:
        own = Newest(int(event.at.timestamp()) * 1_000_000, event.appended)
        newest[partition] = Newest(*map(max, newest.get(partition, own), own))
    return newest


PROJECTS = range(len(FIELDS) * len(LEAST) * len(NAMES))


@dataclass(frozen=True)
class Choice:
    """What tells one of the projects from the others: indices of FIELDS, LEAST and NAMES."""

    fields: int
    least: int
    names: int

    @classmethod
    def of(cls, number: int) -> "Choice":
        rest, least = divmod(number, len(LEAST))
        fields, names = divmod(rest, len(NAMES))
        return cls(fields, least, names)

    @property
    def number(self) -> int:
        return (self.fields * len(NAMES) + self.names) * len(LEAST) + self.least


@cache
def definitions(number: int) -> Project:
    """One of the projects; each changes what the others' views mean, or what they are called."""
    chosen = Choice.of(number)
    conditions = ("", f'where="value >= {LEAST[chosen.least]}", ', "")
    names = NAMES[chosen.names]
    views = "\n".join(
        f"{name} = View(source=numbers, {condition}window=tumbling(minutes=1), measures=MEASURES)"
        for name, condition in zip(names, conditions, strict=False)
    )
    content = DEFINITIONS.format(field=FIELDS[chosen.fields], views=views, names=", ".join(names))
    return project.load_files({"tandem.toml": b"", "definitions.py": content.encode()})


@cache
def _fingerprints() -> dict[int, str]:
    projects = [definitions(number) for number in PROJECTS]
    found = {id(source): decoder_fingerprint(source) for each in projects for source in each.sources.values()}
    return found | {id(view): fingerprint(view) for each in projects for view in each.views.values()}


def known_fingerprint(of: object) -> str:
    """The fingerprint of a source or a view of these projects, computed once."""
    return _fingerprints()[id(of)]


@cache
def least_by_fingerprint() -> dict[str, int | None]:
    """Which events each meaning of a view counts, by its fingerprint."""
    return {
        known_fingerprint(view): None if view.where is None else LEAST[Choice.of(number).least]
        for number in PROJECTS
        for view in definitions(number).views.values()
    }
