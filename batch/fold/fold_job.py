"""What a fold is asked for and what it gives: a job, its items, the counts and files of its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from tandem.batch.fold.suspects import Decided
from tandem.batch.runtime.parquet_writer import Written
from tandem.ledger.delta.location import Location
from tandem.ledger.files.splits import Slice
from tandem.ledger.publish.batch_parts import BatchPart, Windows
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.watermark import Maxima
from tandem.views.verify.compare import MeasureDifference

VERSION: Final = "batch_version"


Side = Literal["folded", "beyond", "stored", "served", "replayed"]
"""The origin of states: `folded` and `beyond` come from slices, `stored` are merged with these two; the others are compared."""

Pair = tuple[Side, Side]
"""Two sides to compare: the answered one, then the one to check it with."""


@dataclass(frozen=True)
class Added:
    """New measures of a view; the states of its other measures are in the table at `there`."""

    measures: tuple[str, ...]
    there: Location


@dataclass(frozen=True)
class FoldJob:
    """What a task needs.

    Args:
        definitions: the release's files.
        source: the name of the source.
        events: the location of the events.
        views: the locations of the views' tables, by view.
        scratch: the location of files that tasks leave for each other.
        dropped: scratch files with the positions of duplicates.
        suspects: scratch files with the hashes of events that may be duplicates; the fold decides about these.
        version: the batch version to write; None writes nothing.
        buckets: the number of tasks that merge.
        windows: fold only windows that start within these bounds.
        pairs: the sides to compare, view by view.
        generations: the ids of the source's topics, the oldest first.
        kept_from: by view, the start of the first window that stays; states of earlier ones are dropped.
        versions: scratch files with the versions in which views look up, by name of the view of versions.
        added: views of which only these measures are folded; their stored states are those of the other measures.
    """

    definitions: Mapping[str, bytes] = field(hash=False)
    source: str
    events: Location
    views: Mapping[str, Location] = field(hash=False)
    scratch: Location
    dropped: tuple[str, ...]
    version: int | None
    buckets: int
    windows: Windows | None = None
    pairs: tuple[Pair, ...] = ()
    generations: tuple[str, ...] = ()
    added: Mapping[str, Added] = field(default_factory=dict, hash=False)
    suspects: tuple[str, ...] = ()
    kept_from: Mapping[str, datetime] = field(default_factory=dict, hash=False)
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class Beyond:
    """A slice that was never served: it is folded, but not compared."""

    part: Slice


@dataclass(frozen=True)
class StatesFile:
    """A file of a view's table, without the states that `later` parts replace."""

    view: str
    path: str
    rows: int
    later: tuple[BatchPart, ...] = ()
    side: Side = "stored"


@dataclass(frozen=True)
class Commits:
    """Files of a realtime table, with partials of views by fingerprint."""

    table: Location
    paths: tuple[str, ...]
    fingerprints: Mapping[str, str] = field(hash=False)
    side: Side = "served"


@dataclass(frozen=True)
class TaskCounts:
    """What a task counted over `ranges`; suspects are counted without ranges, when they are decided.

    Args:
        events: events that are not duplicates.
        further: events, duplicates included, that are not the first of their record.
        ahead: events, duplicates included, that are ahead of their record's timestamp.
        off_calendar: events, duplicates included, whose record's timestamp lies outside the calendar.
        rounded: values of events, duplicates included, that were rounded to the scale of their field.
        newest: the newest append time of the events, in microseconds since 1970.
        rejected: by view and reason.
        maxima: the partitions' newest times.
    """

    ranges: Ranges
    events: int
    further: int
    ahead: int
    off_calendar: int
    rounded: int
    newest: int | None
    rejected: Mapping[str, Mapping[str, int]] = field(hash=False)
    maxima: Maxima = field(hash=False)


@dataclass(frozen=True)
class ViewFile:
    """A finished file of a view's table."""

    view: str
    file: Written


@dataclass(frozen=True)
class Unlike:
    """A view whose new measures have other rows than its other measures: no file was written."""

    view: str


@dataclass(frozen=True)
class KeyComparison:
    """How two sides of a view differ, measure by measure, for some of its keys."""

    view: str
    pair: Pair
    differences: tuple[MeasureDifference, ...]


@dataclass(frozen=True)
class FoldResult:
    """What all tasks of a fold returned: `unlike` are the views that `Unlike` describes, `decided` counts dropped suspects."""

    counted: tuple[TaskCounts, ...]
    built: tuple[ViewFile, ...]
    compared: tuple[KeyComparison, ...]
    unlike: frozenset[str]
    decided: Decided
