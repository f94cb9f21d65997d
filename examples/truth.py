"""Shared by the examples' expected answers: the form of answers, and the partition of a record.

Plain Python on purpose: the check of the platform shares no code with it.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import NamedTuple, Protocol, TypeVar


class HasTime(Protocol):
    """An event's facts, `at` in microseconds since 1970."""

    @property
    def at(self) -> int: ...  # noqa: D102


Timed = TypeVar("Timed", bound=HasTime)

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIX = 0x5BD1E995
_BITS = 0xFFFFFFFF


def written_time(micros: int) -> str:
    """A time in microseconds since 1970 in the form of answers."""
    return (EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")


def bounds(start: int, end: int) -> dict[str, str]:
    """The window columns of an answer, from microseconds since 1970."""
    return {"window_start": written_time(start), "window_end": written_time(end)}


def window(number: int, length: int) -> dict[str, str]:
    """The window columns of the back-to-back window of this number, counted from 1970, with its length in microseconds."""
    return bounds(number * length, (number + 1) * length)


def written_decimal(units: int | None, digits: int) -> str | None:
    """A number of smallest units in the form of a decimal with N digits after the point."""
    return None if units is None else format(Decimal(units).scaleb(-digits), "f")


class Place(NamedTuple):
    """A partition, as named by answers with windows in the order of the log."""

    topic_id: str
    partition: int


def place_of(key: bytes, topic_id: str, partitions: int) -> Place:
    """The partition to which `tandem generate` sends the records of a key: murmur2 modulo `partitions`."""
    return Place(topic_id, (murmur2(key) & 0x7FFFFFFF) % partitions)


def murmur2(data: bytes) -> int:
    """The hash by which Kafka's producers partition keys, 32 bits: MurmurHash2 of Austin Appleby, with Kafka's seed."""
    whole = len(data) & ~3
    hashed = 0x9747B28C ^ len(data)
    for place in range(0, whole, 4):
        word = int.from_bytes(data[place : place + 4], "little") * _MIX & _BITS
        word = (word ^ word >> 24) * _MIX & _BITS
        hashed = hashed * _MIX & _BITS ^ word
    if rest := data[whole:]:
        hashed = (hashed ^ int.from_bytes(rest, "little")) * _MIX & _BITS
    hashed = (hashed ^ hashed >> 13) * _MIX & _BITS
    return hashed ^ hashed >> 15


def sessions(events: Iterable[Timed], gap: int) -> Iterator[list[Timed]]:
    """The events in the order of their times, cut where one is `gap` microseconds or more after the one before."""
    held: list[Timed] = []
    for event in sorted(events, key=lambda event: event.at):
        if held and event.at - held[-1].at >= gap:
            yield held
            held = []
        held.append(event)
    if held:
        yield held
