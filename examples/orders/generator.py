"""Sample prices, changes of articles and orders, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts, source): a record's key and value, the facts of a well-formed record, None for a
malformed one, and the source to whose topic it belongs. `Truth` sums up facts in plain Python.
"""

import json
import re
from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from examples.traffic import DAY, HOUR, SECOND, broken, event_times, zipf
from examples.truth import EPOCH, bounds, window, written_decimal, written_time

SOURCES = ("prices", "articles", "orders")
SHARES = (0.08, 0.04, 0.88)

ARTICLES = ("tea", "café", "Łódź mug", 'the "best" pen', *(f"article {number}" for number in range(26)))
CATEGORIES = ("drink", "kitchen", "office", "bücher")
CITIES = ("Oslo", "Rome", "Kraków", "Lima")
OSLO = ZoneInfo("Europe/Oslo")
GONE = 0.1
RECENT = 500
START = 2 * len(ARTICLES)
"""The first samples are an article and a price each."""


class Price(NamedTuple):
    """The facts of one well-formed record. A copy repeats an identity that was sent before, and does not count."""

    name: str
    at: int
    sku: str
    cents: int
    withdrawn: bool
    copy: bool = False

    @property
    def key(self) -> bytes:
        """The record's key."""
        return self.sku.encode()

    def encode(self) -> bytes:
        """A JSON object."""
        fields = {
            "change_id": self.name,
            "since": written_time(self.at),
            "sku": self.sku,
            "price": written_decimal(self.cents, 2),
        }
        return json.dumps({**fields, **({"withdrawn": True} if self.withdrawn else {})}, ensure_ascii=False).encode()

    def altered(self) -> "Price":
        """Other content of the same identity and time."""
        return self._replace(cents=self.cents + 1)


class Article(NamedTuple):
    """As Price; without a category the row was deleted. The change has no identity, so it has no copies."""

    at: int
    sku: str
    category: str | None
    op: str
    copy: bool = False

    @property
    def key(self) -> bytes:
        """The record's key, as Debezium writes it."""
        return json.dumps({"sku": self.sku}, ensure_ascii=False).encode()

    def encode(self) -> bytes:
        """A change in Debezium's form, without a schema."""
        row = {"sku": self.sku, "category": self.category}
        image = {"before": row if self.op == "d" else None, "after": None if self.op == "d" else row}
        said = {"source": {"ts_us": self.at, "table": "articles", "snapshot": str(self.op == "r").lower()}, "op": self.op}
        return json.dumps({**image, **said}, ensure_ascii=False).encode()


class Order(NamedTuple):
    """As Price."""

    name: str
    at: int
    sku: str
    city: str
    items: int
    copy: bool = False

    @property
    def key(self) -> bytes:
        """The record's key."""
        return self.city.encode()

    def encode(self) -> bytes:
        """A JSON object."""
        fields = {"order_id": self.name, "at": written_time(self.at), "sku": self.sku, "city": self.city}
        return json.dumps({**fields, "items": self.items}, ensure_ascii=False).encode()

    def altered(self) -> "Order":
        """Other content of the same identity and time."""
        return self._replace(items=self.items + 1)


Facts = Price | Article | Order
Sample = tuple[bytes | None, bytes, Facts | None, str]

_ANY: tuple[Callable[[bytes], bytes], ...] = (
    lambda _: b"",
    lambda good: good[:-1],
    lambda good: good + good,
    lambda good: b"[" + good + b"]",
)
_FLAT: tuple[Callable[[bytes], bytes], ...] = (
    *_ANY,
    lambda good: good.replace(b'"sku": "', b'"sku": "\xff'),
    lambda good: good.replace(b'"sku"', b'"article"'),
    lambda good: re.sub(rb'Z", "sku"', b'", "sku"', good),
)
# Each takes a good value and breaks it in its own way.
BREAKS: dict[str, tuple[Callable[[bytes], bytes], ...]] = {
    "prices": (*_FLAT, lambda good: re.sub(rb'"price": "[0-9.]+"', b'"price": "0.001"', good)),
    "articles": (
        *_ANY,
        lambda good: re.sub(rb'"op": "\w"', b'"op": "x"', good),
        lambda good: re.sub(rb'"ts_us": [0-9]+', b'"ts_us": null', good),
    ),
    "orders": (*_FLAT, lambda good: re.sub(rb'"items": [0-9]+', b'"items": "one"', good)),
}


def generate(seed: int, n: int, *, base: datetime, per_second: float = 20.0, duplicates: float = 0.0) -> Iterator[Sample]:
    """The first `n` samples of `seed`: the same ones for the same seed, base and shares, whatever `n` is.

    `base` is the first event time and `per_second` the mean number of events in a second of event time. `duplicates` is the
    share of records that repeat one of the 500 before them, with the same identity and event time; every tenth of those
    differs in content.
    """
    if base.tzinfo is None:
        raise ValueError(f"base {base} has no time zone")
    times = event_times(Random(f"{seed} times"), (base - EPOCH) // timedelta(microseconds=1), per_second)
    skus, cities = zipf(Random(f"{seed} articles"), ARTICLES, 0.7), zipf(Random(f"{seed} cities"), CITIES, 0.5)
    breaks = broken(Random(f"{seed} breaks"), max(map(len, BREAKS.values())))
    kinds, dice, repeat = Random(f"{seed} kinds"), Random(f"{seed} values"), Random(f"{seed} repeats")
    recent: deque[tuple[str, Price | Order]] = deque(maxlen=RECENT)
    for number in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            source, facts = repeat.choice(recent)
            repeated = facts.altered() if repeat.random() < 0.1 else facts
            yield facts.key, repeated.encode(), facts._replace(copy=True), source
            continue
        (source,) = kinds.choices(SOURCES, SHARES) if number >= START else (SOURCES[number % 2],)
        at, sku = next(times), next(skus) if number >= START else ARTICLES[number // 2]
        made = _facts((source, sku, next(cities)), f"{seed:x}-{number}", at, dice, first=number < START)
        value, kind = made.encode(), next(breaks)
        if kind is not None:
            ways = BREAKS[source]
            yield made.key, ways[kind % len(ways)](value), None, source
            continue
        if duplicates and not isinstance(made, Article):
            recent.append((source, made))
        yield made.key, value, made, source


def _facts(chosen: tuple[str, str, str], name: str, at: int, dice: Random, *, first: bool) -> Facts:
    source, sku, city = chosen
    gone = dice.random() < GONE and not first
    if source == "prices":
        return Price(name, at, sku, dice.randrange(100, 10_000), gone)
    if source == "articles":
        return Article(at, sku, None if gone else dice.choice(CATEGORIES), "d" if gone else "r" if first else "u")
    return Order(name, at, sku, city, dice.randrange(1, 5))


class Truth:
    """The expected answers of every view of this example for the facts added so far, in the order of sending."""

    def __init__(self) -> None:
        self._prices: defaultdict[str, dict[int, Price]] = defaultdict(dict)
        self._articles: defaultdict[str, dict[int, Article]] = defaultdict(dict)
        self._latest: dict[str, Article] = {}
        self._orders: list[Order] = []

    def add(self, facts: Facts) -> None:
        """Count one well-formed record, unless it is a copy."""
        if facts.copy:
            return
        match facts:
            case Price():
                self._prices[facts.sku][facts.at] = facts
            case Article():
                self._articles[facts.sku][facts.at] = self._latest[facts.sku] = facts
            case Order():
                self._orders.append(facts)

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them, in any order."""
        whole: dict[str, Any] = {"window_start": None, "window_end": None}
        hours: defaultdict[tuple[int, str], Sales] = defaultdict(Sales)
        days: defaultdict[int, Sales] = defaultdict(Sales)
        categories: defaultdict[tuple[int, str | None], list[int]] = defaultdict(lambda: [0, 0])
        known = {sku: sorted(versions) for sku, versions in self._prices.items()}
        for order in self._orders:
            price = self._price(order, known.get(order.sku, []))
            hours[order.at // HOUR, order.city].count(order, price)
            days[_day(order.at)].count(order, price)
            article = self._latest.get(order.sku)
            of = categories[order.at // DAY, article.category if article else None]
            of[0], of[1] = of[0] + 1, of[1] + order.items
        priced = {sku: self._prices[sku][times[-1]] for sku, times in known.items()}
        return {
            "price_of_versions": [
                {"sku": sku, "valid_from": written_time(at), **whole, "price": _price(each), "gone": each.withdrawn}
                for sku, versions in self._prices.items()
                for at, each in versions.items()
            ],
            "price_of": [{"sku": sku, **whole, "price": _price(each)} for sku, each in priced.items() if not each.withdrawn],
            "article_of_versions": [
                {"sku": sku, "valid_from": written_time(at), **whole, "category": each.category, "gone": each.op == "d"}
                for sku, versions in self._articles.items()
                for at, each in versions.items()
            ],
            "article_of": [
                {"sku": sku, **whole, "category": each.category} for sku, each in self._latest.items() if each.op != "d"
            ],
            "sales": [
                {"city": city, **window(hour, HOUR), **each.row(), "share_unpriced": each.unpriced / each.orders}
                for (hour, city), each in hours.items()
            ],
            "sales_days": [{**bounds(day, _next_day(day)), **each.row()} for day, each in days.items()],
            "category_days": [
                {"category": category, **window(day, DAY), "orders": number, "items": items}
                for (day, category), (number, items) in categories.items()
            ],
        }

    def _price(self, order: Order, times: list[int]) -> int | None:
        """The price in cents at the order's time, if the article had one."""
        place = bisect_right(times, order.at)
        version = self._prices[order.sku][times[place - 1]] if place else None
        return None if version is None or version.withdrawn else version.cents


class Sales:
    """The orders of a row."""

    def __init__(self) -> None:
        self.orders, self.items, self.unpriced = 0, 0, 0
        self.cents: int | None = None

    def count(self, order: Order, cents: int | None) -> None:
        """Count an order at this price."""
        self.orders += 1
        self.items += order.items
        if cents is None:
            self.unpriced += 1
        else:
            self.cents = (self.cents or 0) + order.items * cents

    def row(self) -> dict[str, Any]:
        """The measures that can be added up."""
        revenue = written_decimal(self.cents, 2)
        return {"orders": self.orders, "items": self.items, "revenue": revenue, "unpriced": self.unpriced}


def _price(facts: Price) -> str | None:
    return written_decimal(facts.cents, 2)


def _day(at: int) -> int:
    """The start of Oslo's day, in microseconds since 1970."""
    day = (EPOCH + timedelta(microseconds=at)).astimezone(OSLO).replace(hour=0, minute=0, second=0, microsecond=0)
    return round(day.timestamp()) * SECOND


def _next_day(start: int) -> int:
    return _day(start + 26 * HOUR)
