"""What a person would choose first: the event time, the identity, and a view."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tandem.cli.project.infer.field_type import FieldType
from tandem.cli.project.infer.sample import FileSample
from tandem.views.errors import TandemError

_TIME_NAMES: Final = (
    "event_time",
    "eventtime",
    "occurred_at",
    "timestamp",
    "time",
    "at",
    "ts",
    "datetime",
    "date_time",
    "created_at",
)
_ID: Final = re.compile(r"(?:^|[\W_])(?:id|uuid|guid|key)$|[a-z](?:Id|ID)$", re.IGNORECASE)
_PLACES: Final = re.compile(r"(?:^|[\W_])(?:lat|lon|lng|latitude|longitude|year|month|day|hour|minute)(?:$|[\W_])", re.IGNORECASE)
_CODES: Final = re.compile(
    r"(?:^|[\W_])(?:code|number|num|no|nr|zip|postcode|phone|port|pid|version|status)(?:$|[\W_])|[a-z](?:Code|Number)$",
    re.IGNORECASE,
)
_MOST_KEYS: Final = 50
_MOST_MEASURED: Final = 2
_MEASURED: Final = ("decimal", "double", "integer")

ZONE: Final = "{zone}"
"""Stands for the zone in the text of a window."""


@dataclass(frozen=True)
class Column:
    """A field of the event, or of a struct in it: the keys that lead to it, and its type."""

    path: tuple[str, ...]
    type: FieldType


@dataclass(frozen=True)
class FirstView:
    """The choices: columns, the window's unit, and the fields that are summed."""

    event_time: Column
    identity: Column | None
    key: Column | None
    window: str
    measured: tuple[Column, ...]


def choose(sample: FileSample, file: str) -> FirstView:
    """The first choices for a sample. Raises TandemError if no column is a time."""
    columns = [*_columns(sample.columns, ())]
    times = [column for column in columns if column.type.kind in ("time", "date")]
    if not times:
        lists = [name for name, of in sample.columns.items() if of.annotation.startswith("list[") and of.members]
        names = ", ".join(".".join(column.path) for column in columns)
        remedy = (
            f'Source(unnest="{lists[0]}", max_events_per_record=...) reads each item of the list "{lists[0]}" as an event'
            if lists
            else f"columns: {names}. Add one, or write definitions.py by hand, with a Format for times of another form"
            if len(columns) > 1
            else 'a log of a server needs its own format: apache(format="..."), nginx(format="..."), syslog(zone="...", year=...)'
        )
        raise TandemError(f"{file}: no column is a time, which every event has; {remedy}", code="file-unusable")
    event_time = min(times, key=_rank)
    top = [column for column in columns if len(column.path) == 1 and column is not event_time]
    identity = next((column for column in top if column.path[0] in sample.repeats and _ID.search(column.path[0])), None)
    free = [column for column in columns if column not in (event_time, identity) and not _ID.search(column.path[-1])]
    return FirstView(
        event_time,
        identity,
        _key(free, sample.rows),
        _window(event_time.type),
        tuple(sorted(filter(_fits_measures, free), key=lambda column: _MEASURED.index(column.type.kind))[:_MOST_MEASURED]),
    )


def _columns(members: Mapping[str, FieldType], path: tuple[str, ...]) -> Iterator[Column]:
    """The columns, with those of structs that every row has."""
    for name, of in members.items():
        if of.kind == "struct":
            if not of.missing and not of.absent and not of.annotation.startswith("list["):
                yield from _columns(dict(of.members), (*path, name))
        elif of.annotation:
            yield Column((*path, name), of)


def _rank(column: Column) -> tuple[bool, bool, int, int]:
    """A time of all rows before a time that some rows lack, a time before a date, then by its name."""
    name = column.path[-1].lower()
    place = _TIME_NAMES.index(name) if name in _TIME_NAMES else len(_TIME_NAMES)
    return column.type.missing or column.type.absent, column.type.kind == "date", place, len(column.path)


def _key(columns: list[Column], rows: int) -> Column | None:
    """The first text or truth value with few values, else an integer with few."""
    for kinds in (("text", "truth"), ("integer",)):
        for column in columns:
            if column.type.kind in kinds and _fits_key(column.type.annotation):
                few = 2 <= column.type.distinct <= min(_MOST_KEYS, max(2, rows // 2))
                if few and not _PLACES.search(column.path[-1]):
                    return column
    return None


def _fits_key(annotation: str) -> bool:
    return annotation in ("str", "bool", "int") or annotation.startswith("Literal[")


def _fits_measures(column: Column) -> bool:
    name = column.path[-1]
    return column.type.kind in _MEASURED and not _PLACES.search(name) and not _CODES.search(name)


def _window(of: FieldType) -> str:
    """A window of which the file has some dozens."""
    low, high = of.span or (None, None)
    span = timedelta() if low is None or high is None else high - low
    if span <= timedelta(hours=3) and of.kind == "time":
        return "tumbling(minutes=1)"
    if span <= timedelta(days=4) and of.kind == "time":
        return "tumbling(hours=1)"
    return "tumbling(days=1)" if span <= timedelta(days=200) else f'calendar("month", zone="{ZONE}")'
