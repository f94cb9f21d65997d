"""Windows in plain Python, written beside the windows for the kernel."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from importlib import resources
from itertools import count
from typing import Any
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

from tandem.views.windows import (
    Hopping,
    Session,
    Tumbling,
    Window,
    all_time,
    calendar,
    count_window,
    delta,
    punctuation,
    sliding_count_window,
)
from tests.agreement.oracle import Placed, Split

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SIZES = (
    timedelta(seconds=1),
    timedelta(minutes=1),
    timedelta(hours=7),
    timedelta(days=1),
    timedelta(days=7),
    timedelta(days=365),
)
HOPS = (
    (timedelta(seconds=30), timedelta(seconds=10)),
    (timedelta(minutes=7), timedelta(minutes=3)),
    (timedelta(days=3), timedelta(days=2)),
    (timedelta(hours=1), timedelta(hours=1)),
)
GAPS = (timedelta(microseconds=1), timedelta(milliseconds=300), timedelta(seconds=2), timedelta(hours=1), timedelta(days=300))
ZONES = ("UTC", "Europe/Berlin", "America/Sao_Paulo", "America/Havana", "Pacific/Apia", "Asia/Kathmandu", "Africa/Cairo")


@dataclass(frozen=True)
class Cut:
    """A window said twice."""

    window: Window
    split: Split


def tumbled(size: timedelta) -> Cut:
    def split(placed: list[Placed]) -> Iterator[tuple[tuple[Any, ...], Placed]]:
        for one in placed:
            start = EPOCH + (one.event["at"] - EPOCH) // size * size
            yield (start, start + size), one

    return Cut(Tumbling(size), split)


def hopped(size: timedelta, every: timedelta) -> Cut:
    def split(placed: list[Placed]) -> Iterator[tuple[tuple[Any, ...], Placed]]:
        for one in placed:
            last = (one.event["at"] - EPOCH) // every
            for start in (EPOCH + (last - back) * every for back in range(size // every + 1)):
                if start <= one.event["at"] < start + size:
                    yield (start, start + size), one

    return Cut(Hopping(size, every), split)


def everything(placed: list[Placed]) -> Iterator[tuple[tuple[Any, ...], Placed]]:
    for one in placed:
        yield (None, None), one


def by_calendar(unit: Any, zone: str) -> Cut:
    """An event is in the day that the clocks show; in these zones none shows a day again that was over."""
    # The machine's own rules for the years to come may be older or newer.
    with resources.files("tzdata").joinpath("zoneinfo", *zone.split("/")).open("rb") as rules:
        clocks = ZoneInfo.from_file(rules)

    def midnight(day: date) -> datetime:
        return datetime.combine(day, time(), clocks).astimezone(UTC)

    def split(placed: list[Placed]) -> Iterator[tuple[tuple[Any, ...], Placed]]:
        for one in placed:
            day = one.event["at"].astimezone(clocks).date()
            first = {"day": day, "week": day - timedelta(days=day.weekday()), "month": day.replace(day=1)}[unit]
            after = {
                "day": first + timedelta(days=1),
                "week": first + timedelta(days=7),
                "month": (first + timedelta(days=31)).replace(day=1),
            }[unit]
            yield (midnight(first), midnight(after)), one

    return Cut(calendar(unit, zone=zone), split)


def sessions(gap: timedelta) -> Cut:
    def split(placed: list[Placed]) -> Iterator[tuple[tuple[Any, ...], Placed]]:
        held: list[Placed] = []
        for one in sorted(placed, key=lambda one: one.event["at"]):
            if held and one.event["at"] - held[-1].event["at"] >= gap:
                yield from _spanning(held, gap)
                held = []
            held.append(one)
        yield from _spanning(held, gap)

    return Cut(Session(gap), split)


def _spanning(held: list[Placed], gap: timedelta) -> Iterator[tuple[tuple[Any, ...], Placed]]:
    for one in held:
        yield (held[0].event["at"], held[-1].event["at"] + gap), one


def in_order(window: Window, windows: Callable[[list[Placed]], Iterable[tuple[int | None, list[Placed]]]]) -> Cut:
    """Windows over the events of one partition in order; a number of None is not part of the answer."""

    def split(placed: list[Placed]) -> Iterator[tuple[tuple[Any, ...], Placed]]:
        by_partition: dict[tuple[str, int], list[Placed]] = defaultdict(list)
        for one in placed:
            by_partition[one.partition].append(one)
        for partition, members in by_partition.items():
            for number, inside in windows(members):
                times = [one.event["at"] for one in inside]
                place = (min(times), max(times), *partition, *(() if number is None else (number,)))
                for one in inside:
                    yield place, one

    return Cut(window, split)


def every(size: int) -> Cut:
    return in_order(
        count_window(size), lambda members: ((at // size, members[at : at + size]) for at in range(0, len(members), size))
    )


def last(size: int) -> Cut:
    return in_order(sliding_count_window(size), lambda members: [(None, members[-size:])])


def moved(sql: str, value: Callable[[Any], Any], by: Any) -> Cut:
    def windows(members: list[Placed]) -> Iterator[tuple[int, list[Placed]]]:
        numbers, held, first = count(), [], None
        for one in members:
            now = value(one.event)
            if now is not None and first is not None and abs(Fraction(now) - Fraction(first)) >= Fraction(str(by)):
                yield next(numbers), held
                held, first = [], now
            first = now if first is None else first
            held.append(one)
        yield next(numbers), held

    return in_order(delta(sql, by=by), windows)


def closed(sql: str, value: Callable[[Any], Any]) -> Cut:
    def windows(members: list[Placed]) -> Iterator[tuple[int, list[Placed]]]:
        numbers, held = count(), []
        for one in members:
            held.append(one)
            if value(one.event) is True:
                yield next(numbers), held
                held = []
        if held:
            yield next(numbers), held

    return in_order(punctuation(sql), windows)


WINDOWS: dict[str, st.SearchStrategy[Cut]] = {
    "all time": st.just(Cut(all_time(), everything)),
    "tumbling": st.sampled_from(SIZES).map(tumbled),
    "hopping": st.sampled_from(HOPS).map(lambda hop: hopped(*hop)),
    "calendar": st.builds(by_calendar, st.sampled_from(("day", "week", "month")), st.sampled_from(ZONES)),
    "session": st.sampled_from(GAPS).map(sessions),
    "every N events": st.sampled_from((1, 2, 3, 7)).map(every),
    "last N events": st.sampled_from((1, 2, 5)).map(last),
    "delta": st.sampled_from(
        (
            moved("i", lambda e: e["i"], 3),
            moved("i", lambda e: e["i"], 2.5),
            moved("d", lambda e: e["d"], Decimal("1.50")),
            moved("f", lambda e: e["f"], 1000),
        )
    ),
    "punctuation": st.sampled_from((closed("flag", lambda e: e["flag"]), closed("i > 0", lambda e: e["i"] and e["i"] > 0))),
}
