"""A shop's sample records in three formats, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts, source): a record's key and value, the facts of a well-formed record, None for a
malformed one, and the source to whose topic it belongs. `Truth` sums up facts in plain Python. It is what the platform's answers
are compared with, so it imports nothing of the platform and has exact measures only.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from examples.traffic import HOUR, MINUTE, broken, event_times, response_bytes, zipf
from examples.truth import EPOCH, window, written_decimal, written_time

SOURCES = ("requests", "orders", "deliveries")
SHARES = (0.7, 0.2, 0.1)

SECTIONS = ("shop", "search", "cart", "blog", "account", "help")
PAGES = (
    "/",
    *(f"/{section}/{word}" for word in ("new", "sale", "café", 'the-"best"') for section in SECTIONS),
    *(f"/{section}/item/{number}" for number in range(60) for section in SECTIONS),
)
USERS = tuple(f"u{number}" for number in range(5_000))
STATUSES = (200, 304, 404, 301, 500, 201, 403, 503)
CITIES = ("Oslo", "Bergen", "Łódź", 'Baden, "the Bath"', "São Paulo", *(f"Town {number}" for number in range(40)))
DEPOTS = tuple(f"depot-{number}" for number in range(30))
RECENT = 500


class Request(NamedTuple):
    """The facts of one well-formed record. A copy repeats an identity that was sent before, and does not count."""

    name: str
    at: int
    user: str
    path: str
    status: int
    size: int
    copy: bool = False

    def encode(self) -> bytes:
        """A JSON object."""
        fields = {"request_id": self.name, "at": written_time(self.at), "user": self.user, "path": self.path}
        return json.dumps({**fields, "status": self.status, "bytes": self.size}, ensure_ascii=False).encode()

    def altered(self) -> "Request":
        """Other content of the same identity and time."""
        return self._replace(size=self.size + 1)


class Order(NamedTuple):
    """As Request; `cents` is the amount."""

    name: str
    at: int
    city: str
    items: int
    cents: int
    copy: bool = False

    def encode(self) -> bytes:
        """A CSV row, quoted where a city has a comma or quote."""
        city = '"{}"'.format(self.city.replace('"', '""')) if re.search('[,"]', self.city) else self.city
        return f"{self.name},{written_time(self.at)},{city},{self.items},{written_decimal(self.cents, 2)}".encode()

    def altered(self) -> "Order":
        """Other content of the same identity and time."""
        return self._replace(cents=self.cents + 1)


class Delivery(NamedTuple):
    """As Request."""

    name: str
    at: int
    depot: str
    grams: int
    minutes: int
    express: bool
    copy: bool = False

    def encode(self) -> bytes:
        """An Avro record, field by field: https://avro.apache.org/docs/1.12.0/specification/#binary-encoding."""
        texts = b"".join((avro_text(self.name), avro_long(self.at), avro_text(self.depot)))
        return b"".join((texts, avro_long(self.grams), avro_long(self.minutes), b"\1" if self.express else b"\0"))

    def altered(self) -> "Delivery":
        """Other content of the same identity and time."""
        return self._replace(grams=self.grams + 1)


Facts = Request | Order | Delivery
Sample = tuple[bytes | None, bytes, Facts | None, str]


def avro_long(number: int) -> bytes:
    """A number in Avro's zigzag varint."""
    left, encoded = number << 1 ^ number >> 63, bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def avro_text(text: str) -> bytes:
    """A text after its number of bytes."""
    value = text.encode()
    return avro_long(len(value)) + value


# Each takes a good value and breaks it in its own way. An unknown field breaks nothing: every hundredth JSON value has one.
BREAKS: dict[str, tuple[Callable[[bytes], bytes], ...]] = {
    "requests": (
        lambda _: b"",
        lambda _: b"GET / HTTP/1.1",
        lambda good: good[:-1],
        lambda good: good.replace(b'"user": "', b'"user": "\xff'),
        lambda good: good.replace(b'"user"', b'"usr"'),
        lambda good: re.sub(rb'"status": \d+', b'"status": null', good),
        lambda good: re.sub(rb'"bytes": \d+', b'"bytes": 1180591620717411303424', good),
        lambda good: re.sub(rb'"at": "[0-9]{4}', b'"at": "1969', good),
    ),
    "orders": (
        lambda _: b"",
        lambda good: good + b",more",
        lambda good: good.rsplit(b",", 1)[0],
        lambda good: b'"' + good,
        lambda good: good.rsplit(b",", 1)[0] + b",12.345",
        lambda good: good.rsplit(b",", 1)[0] + b",free",
        lambda good: good.replace(b"Z,", b",", 1),
        lambda good: good.replace(b",", b",\xff", 2),
    ),
    "deliveries": (
        lambda _: b"",
        lambda good: good[:-1],
        lambda good: good + b"\0",
        lambda good: b"\1" + good[1:],
        lambda good: good[:1] + b"\xff" + good[2:],
        lambda good: good[: 1 + good[0] // 2] + avro_long(-1) + good[1 + good[0] // 2 :],
        lambda good: good[: 1 + good[0] // 2] + re.sub(rb"^[\x80-\xff]*[\0-\x7f]", avro_long(-1), good[1 + good[0] // 2 :]),
        lambda good: b"\xff" * 12 + good,
    ),
}
_KINDS = 8

CONDITIONS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "calm_hours": lambda row: row["orders"] < 100,
    "busy_city": lambda row: row["orders"] >= 300,
}
"""Which expected rows the sink and the alert of these names have."""


def generate(seed: int, n: int, *, base: datetime, per_second: float = 20.0, duplicates: float = 0.0) -> Iterator[Sample]:
    """The first `n` samples of `seed`: the same ones for the same seed, base and shares, whatever `n` is.

    `base` is the first event time and `per_second` the mean number of events in a second of event time; neither affects when a
    record is sent. `duplicates` is the share of records that repeat one of the 500 before them, with the same identity and event
    time; every tenth of those differs in content.
    """
    if base.tzinfo is None:
        raise ValueError(f"base {base} has no time zone")
    times = event_times(Random(f"{seed} times"), (base - EPOCH) // timedelta(microseconds=1), per_second)
    kinds, breaks = Random(f"{seed} kinds"), broken(Random(f"{seed} breaks"), _KINDS)
    facts_of = {
        "requests": _requests(seed),
        "orders": _orders(seed),
        "deliveries": _deliveries(seed),
    }
    repeat = Random(f"{seed} repeats")
    recent: deque[tuple[str, Facts]] = deque(maxlen=RECENT)
    for number in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            source, facts = repeat.choice(recent)
            repeated = facts.altered() if repeat.random() < 0.1 else facts
            yield _key(facts), repeated.encode(), facts._replace(copy=True), source
            continue
        (source,) = kinds.choices(SOURCES, SHARES)
        facts = next(facts_of[source])(f"{seed:x}-{number}", next(times))
        value, kind = facts.encode(), next(breaks)
        if kind is not None:
            yield _key(facts), BREAKS[source][kind](value), None, source
            continue
        if number % 100 == 0 and source == "requests":
            value = value[:-1] + b', "agent": "curl"}'
        if duplicates:
            recent.append((source, facts))
        yield _key(facts), value, facts, source


Make = Callable[[str, int], Facts]


def _requests(seed: int) -> Iterator[Make]:
    pages, users = zipf(Random(f"{seed} pages"), PAGES), zipf(Random(f"{seed} users"), USERS, 0.8)
    statuses, sizes = zipf(Random(f"{seed} statuses"), STATUSES, 2.5), response_bytes(Random(f"{seed} sizes"))
    for user, page, status, size in zip(users, pages, statuses, sizes, strict=True):
        yield lambda name, at, rest=(user, page, status, size): Request(name, at, *rest)


def _orders(seed: int) -> Iterator[Make]:
    cities, dice = zipf(Random(f"{seed} cities"), CITIES), Random(f"{seed} orders")
    for city in cities:
        items, cents = dice.randrange(1, 6), dice.randrange(100, 9_000)
        yield lambda name, at, rest=(city, items, items * cents): Order(name, at, *rest)


def _deliveries(seed: int) -> Iterator[Make]:
    depots, dice = zipf(Random(f"{seed} depots"), DEPOTS), Random(f"{seed} deliveries")
    for depot in depots:
        rest = (depot, int(200 * dice.random() ** -0.8), dice.randrange(20, 3_000), dice.random() < 0.2)
        yield lambda name, at, rest=rest: Delivery(name, at, *rest)


def _key(facts: Facts) -> bytes:
    """Whose records stay in order."""
    return (facts.user if isinstance(facts, Request) else facts.city if isinstance(facts, Order) else facts.depot).encode()


class Truth:
    """The expected answers of every view of this example for the facts added so far."""

    def __init__(self) -> None:
        self._pages: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        self._cities: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._depots: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._traffic, self._sales, self._parcels = [0, 0, 0], [0, 0], [0, 0]

    def add(self, facts: Facts) -> None:
        """Count one well-formed record, unless it is a copy."""
        if facts.copy:
            return
        match facts:
            case Request(at=at, path=path, status=status, size=size):
                if status < 500:
                    _add(self._pages[at // MINUTE, path], 1, size)
                _add(self._traffic, 1, size)
                self._traffic[2] = max(self._traffic[2], at)
            case Order(at=at, city=city, cents=cents):
                row = self._cities[at // HOUR, city.upper()]
                _add(row, 1, cents)
                row[2] = max(row[2], cents)
                _add(self._sales, 1, cents)
            case Delivery(at=at, depot=depot, grams=grams, minutes=minutes, express=express):
                row = self._depots[at // HOUR, depot]
                _add(row, 1, int(express))
                row[2] = max(row[2], minutes)
                _add(self._parcels, 1, grams)
            case _:
                raise TypeError(f"{facts!r} is not a fact of this generator")

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them: exact measures only, in any order."""
        whole: dict[str, Any] = {"window_start": None, "window_end": None}
        requests, size, last = self._traffic
        orders, cents = self._sales
        parcels, grams = self._parcels
        traffic = {"requests": requests, "bytes": size, "mean_bytes": size / max(requests, 1), "last": written_time(last)}
        return {
            "page_traffic": [
                {"page": page, **window(minute, MINUTE), "hits": hits, "bytes": total}
                for (minute, page), (hits, total) in self._pages.items()
            ],
            "traffic": [whole | traffic] if requests else [],
            "city_sales": [
                {
                    "city": city,
                    **window(hour, HOUR),
                    "orders": number,
                    "revenue": written_decimal(revenue, 2),
                    "largest": written_decimal(largest, 2),
                }
                for (hour, city), (number, revenue, largest) in self._cities.items()
            ],
            "sales": [whole | {"orders": orders, "revenue": written_decimal(cents, 2)}] if orders else [],
            "depot_parcels": [
                {"depot": depot, **window(hour, HOUR), "parcels": number, "express": express, "slowest": slowest}
                for (hour, depot), (number, express, slowest) in self._depots.items()
            ],
            "parcels": [whole | {"parcels": parcels, "grams": grams}] if parcels else [],
        }


def _add(row: list[int], *numbers: int) -> None:
    for place, number in enumerate(numbers):
        row[place] += number
