"""An executable model of answers, in plain Python: sources with chains of positions, views over them, rollups of views.

An answer is a function of sets of events below positions. Here the state of a group *is* the list of its events, merging puts
lists together, and every answer is computed from the lists. The model shares nothing with the platform's `views` but Event: keys,
windows and measures are Python functions.

    Chain       one source: the log by partition, the cut, and the positions at which micro-batches end
    ViewModel   filter, keys, slices of event time, measures: folds events into groups
    TableModel  the latest record of each key, at any time
    RollupModel fewer keys and longer windows over the groups of another model; it is never given an event
    Row         a row of an answer, with what labels it

A view over several sources is a ViewModel of the records of all of them, whose measures tell these apart.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from typing import Any, Literal
from zoneinfo import ZoneInfo

Place = tuple[str, int]
"""A partition: the topic's id and a number."""

Offsets = Mapping[Place, int]
"""A position: the offset of each partition up to which it counts."""

Record = Mapping[str, Any]
Window = tuple[datetime | None, datetime | None]
"""Start and end; both None is all time."""

Windows = Callable[[datetime | None], Window]
"""The window that has a time; None is the start of the window of all time."""

Group = tuple[tuple[Any, ...], Window]
Layer = Literal["batch", "merged", "speed"]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unplaced(Exception):
    """A rollup's window is not a union of the slices of its parent."""


@dataclass(frozen=True)
class Chain:
    """A source: events by partition in the order of their offsets, the `cut`, and the `ends` of the micro-batches after it.

    `identity` gives what duplicates have in common; without it every event counts. `lateness` is how long after the end of a
    window an event may come before the window is final.
    """

    log: Mapping[Place, Sequence[Record]]
    cut: Offsets
    ends: Sequence[Offsets] = ()
    identity: Callable[[Record], Hashable] | None = None
    time: Callable[[Record], datetime] = lambda record: record["at"]
    lateness: timedelta = timedelta(0)

    def between(self, start: Offsets, end: Offsets) -> list[Record]:
        """The records of a range."""
        return [record for place, records in self.log.items() for record in records[start.get(place, 0) : end.get(place, 0)]]

    def counted(self) -> list[list[Record]]:
        """The events that count: those below the cut, then those of each micro-batch. Of duplicates the first one counts."""
        seen = set[Hashable]()
        positions = ({}, self.cut, *self.ends)
        return [[record for record in self.between(*pair) if self._first(record, seen)] for pair in pairwise(positions)]

    def _first(self, record: Record, seen: set[Hashable]) -> bool:
        if self.identity is None:
            return True
        name = self.identity(record)
        if name in seen:
            return False
        seen.add(name)
        return True

    def watermark(self, records: Iterable[Record]) -> datetime | None:
        """The newest event time; the model's partitions are never idle, and it has one clock."""
        return max(map(self.time, records), default=None)


@dataclass(frozen=True)
class ViewModel:
    """A view: events for which `where` is true, by `keys` and by the slice of their time; `measures` answer for lists of events.

    A row's window is computed of slices: by default it is one. `joined` gives the windows of a slice.
    """

    keys: Mapping[str, Callable[[Record], Any]]
    slices: Windows
    measures: Mapping[str, Callable[[list[Record]], Any]]
    where: Callable[[Record], bool] = lambda record: True
    time: Callable[[Record], datetime] = lambda record: record["at"]

    def groups(self, records: Iterable[Record]) -> dict[Group, list[Record]]:
        """The state of some events."""
        found: dict[Group, list[Record]] = defaultdict(list)
        for record in records:
            if self.where(record):
                key = tuple(value(record) for value in self.keys.values())
                found[key, self.slices(self.time(record))].append(record)
        return dict(found)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its keys."""
        return tuple(self.keys)


@dataclass(frozen=True)
class RollupModel:
    """A rollup: the groups of its parent with fewer keys and in longer windows, and some of its measures.

    Its keys are those of the parent with the names `kept`, then what is `computed` of the parent's.
    """

    parent: "Model"
    kept: tuple[str, ...]
    slices: Windows
    measured: tuple[str, ...] | None = None
    computed: Mapping[str, Callable[[Mapping[str, Any]], Any]] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its keys."""
        return (*self.kept, *self.computed)

    def groups(self, records: Iterable[Record]) -> dict[Group, list[Record]]:
        """The parent's groups, put together. Raises Unplaced for a slice that lies in two windows."""
        found: dict[Group, list[Record]] = defaultdict(list)
        for (key, (start, end)), members in self.parent.groups(records).items():
            window = self.slices(start)
            if start is not None and end is not None and self.slices(end - timedelta(microseconds=1)) != window:
                raise Unplaced(f"[{start}, {end}) is not in {window} alone")
            values = dict(zip(self.parent.names, key, strict=True))
            keys = (*(values[name] for name in self.kept), *(make(values) for make in self.computed.values()))
            found[keys, window] += members
        return dict(found)

    @property
    def measures(self) -> Mapping[str, Callable[[list[Record]], Any]]:
        """The measures that it has of its parent's."""
        measures = self.parent.measures
        return measures if self.measured is None else {name: measures[name] for name in self.measured}


Model = ViewModel | RollupModel


@dataclass(frozen=True)
class TableModel:
    """A table: of the records of each key the last one by `order`, unless it is `gone`."""

    key: Callable[[Record], Hashable]
    order: Callable[[Record], Any]
    gone: Callable[[Record], bool] = lambda record: False
    time: Callable[[Record], datetime] = lambda record: record["at"]

    def rows(self, records: Iterable[Record], at: datetime | None = None) -> dict[Hashable, Record]:
        """The last record by key, of those up to the time `at` if there is one."""
        latest: dict[Hashable, Record] = {}
        for record in sorted(records, key=self.order):
            if at is None or self.time(record) <= at:
                latest[self.key(record)] = record
        return {key: record for key, record in latest.items() if not self.gone(record)}

    def hard_cases(self, chain: Chain) -> Iterator[str]:
        """Which hard cases a chain is: a late version, two of one time, a key that is gone, or that was gone and is back."""
        below, *after = chain.counted()
        every = [*below, *(record for batch in after for record in batch)]
        for key in {self.key(record) for record in every}:
            versions = [record for record in sorted(every, key=self.order) if self.key(record) == key]
            times = [self.time(record) for record in versions]
            if len(set(times)) < len(times):
                yield "two of one time"
            gone = [self.gone(record) for record in versions]
            if gone[-1]:
                yield "gone"
            if any(gone[:-1]) and not gone[-1]:
                yield "gone and back"
            old = [self.time(record) for record in below if self.key(record) == key]
            if old and any(self.time(record) < max(old) for batch in after for record in batch if self.key(record) == key):
                yield "late below the cut"


@dataclass(frozen=True)
class Row:
    """A row of an answer. It is `touched` if any event from the cut on is in it: a recompute may change it."""

    values: Mapping[str, Any] = field(hash=False)
    state: Literal["open", "on_time", "final"]
    touched: bool


def answer(model: Model, *chains: Chain, layer: Layer = "merged") -> dict[Group, Row]:
    """The rows of a model at the end of each of its sources; of the layer `batch` at their cuts, of `speed` from there on.

    Of several sources the least watermark labels a window, which waits for late events by the longest lateness.
    """
    parts = [chain.counted() for chain in chains]
    batches = {"batch": [part[:1] for part in parts], "merged": parts, "speed": [part[1:] for part in parts]}[layer]
    united = unite(model.groups(batch) for part in batches for batch in part)
    tail = unite(model.groups(batch) for part in parts for batch in (part[1:] if layer != "batch" else []))
    counted = [part[:1] if layer == "batch" else part for part in parts]
    reached = [chain.watermark(each for batch in part for each in batch) for chain, part in zip(chains, counted, strict=True)]
    there = [time for time in reached if time is not None]
    watermark = min(there) if len(there) == len(chains) else None
    lateness = max(chain.lateness for chain in chains)
    return {
        group: Row(
            {name: measure(members) for name, measure in model.measures.items()},
            label(group[1][1], watermark, lateness),
            group in tail,
        )
        for group, members in united.items()
    }


def unite(parts: Iterable[Mapping[Group, list[Record]]]) -> dict[Group, list[Record]]:
    """Groups of disjoint sets of events as one. It never takes an event away."""
    found: dict[Group, list[Record]] = defaultdict(list)
    for part in parts:
        for group, members in part.items():
            found[group] += members
    return dict(found)


def label(end: datetime | None, watermark: datetime | None, lateness: timedelta) -> Literal["open", "on_time", "final"]:
    """Whether a window that ends then is open, over, or over for late events too."""
    if end is None or watermark is None or end > watermark:
        return "open"
    return "final" if end + lateness <= watermark else "on_time"


def tumbling(size: timedelta) -> Windows:
    """Windows of one size from 1970 on."""

    def window(at: datetime | None) -> Window:
        assert at is not None
        start = EPOCH + (at - EPOCH) // size * size
        return start, start + size

    return window


def all_time(at: datetime | None) -> Window:
    """The one window of all time."""
    return None, None


def calendar(unit: Literal["day", "week", "month"], clocks: ZoneInfo) -> Windows:
    """Days, weeks from Monday on and months on a zone's clocks."""

    def midnight(day: date) -> datetime:
        return datetime.combine(day, time(), clocks).astimezone(UTC)

    def window(at: datetime | None) -> Window:
        assert at is not None
        day = at.astimezone(clocks).date()
        first = {"day": day, "week": day - timedelta(days=day.weekday()), "month": day.replace(day=1)}[unit]
        after = first + timedelta(days={"day": 1, "week": 7, "month": 31}[unit])
        return midnight(first), midnight(after.replace(day=1) if unit == "month" else after)

    return window


def hard_cases(model: RollupModel, chain: Chain) -> Iterator[str]:
    """Which hard cases a chain is for a rollup: a late event, a window on both sides of the cut, a duplicate there, one slice in
    several windows of keys.
    """
    below, *after = chain.counted()
    tail = [record for batch in after for record in batch]
    newest = chain.watermark(below)
    if newest is not None and any(chain.time(record) < newest for record in tail):
        yield "late below the cut"
    old, new = model.groups(below), model.groups(tail)
    if old.keys() & new.keys():
        yield "window across the cut"
    if any(len({record["_offset"] for record in members}) > 1 for members in (old | new).values()):
        yield "several events in a window"
    if chain.identity is not None and len(tail) + len(below) < len(chain.between({}, (chain.ends or [chain.cut])[-1])):
        yield "duplicate"
    united = unite([old, new])
    if len(united) < len(model.parent.groups([*below, *tail])):
        yield "several parent rows in a row"


def hard_cases_of_sources(model: Model, chains: Sequence[Chain]) -> Iterator[str]:
    """Which hard cases several chains are for a view over all of them."""
    sides = []
    for chain in chains:
        below, *after = chain.counted()
        tail = [record for batch in after for record in batch]
        newest = chain.watermark(below)
        if newest is not None and any(chain.time(record) < newest for record in tail):
            yield "late below the cut of its source"
        if len(tail) + len(below) < len(chain.between({}, (chain.ends or [chain.cut])[-1])):
            yield "duplicate"
        if not any(chain.log.values()):
            yield "a source without records"
        sides.append((set(model.groups(below)), set(model.groups(tail))))
    (old, new), (other_old, other_new) = sides
    if (old | new) ^ (other_old | other_new):
        yield "a row of one source"
    if (old | new) & (other_old | other_new):
        yield "a row of both sources"
    if (old & new & (other_old ^ other_new)) or (other_old & other_new & (old ^ new)):
        yield "a window across one cut and not the other"
    if (old & other_new) or (other_old & new):
        yield "below the cut of one source and above that of the other"
