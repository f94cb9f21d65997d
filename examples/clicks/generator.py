"""Sample impressions and actions, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts, source): a record's key and value, the facts of a well-formed record, None for a
malformed one, and the source to whose topic it belongs. `Truth` sums up facts in plain Python.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from fractions import Fraction
from random import Random
from typing import Any, NamedTuple

from examples.traffic import DAY, HOUR, MINUTE, SECOND, broken, event_times, zipf
from examples.truth import EPOCH, window, written_decimal, written_time

SOURCES = ("impressions", "actions")
SHARES = (0.7, 0.3)

CAMPAIGNS = ("spring", "café", "Łódź", 'the "best"', *(f"line {number}" for number in range(8)))
ADS = tuple(f"{campaign}-{number}" for number in range(5) for campaign in CAMPAIGNS)
USERS = tuple(f"u{number}" for number in range(400))
BOUGHT = 0.2
RECENT = 500


class Impression(NamedTuple):
    """The facts of one well-formed record. A copy repeats an identity that was sent before, and does not count."""

    name: str
    at: int
    ad: str
    user: str
    cost: int
    copy: bool = False

    def encode(self) -> bytes:
        """A JSON object."""
        fields = {"impression_id": self.name, "at": written_time(self.at), "ad": self.ad, "user": self.user}
        return json.dumps({**fields, "cost": written_decimal(self.cost, 4)}, ensure_ascii=False).encode()

    def altered(self) -> "Impression":
        """Other content of the same identity and time."""
        return self._replace(cost=self.cost + 1)


class Action(NamedTuple):
    """As Impression; a purchase has an amount in cents, a click has none."""

    name: str
    at: int
    ad: str
    user: str
    cents: int | None
    copy: bool = False

    def encode(self) -> bytes:
        """A JSON object."""
        fields = {"action_id": self.name, "at": written_time(self.at), "ad": self.ad, "user": self.user}
        bought = {"kind": "buy", "amount": written_decimal(self.cents, 2)}
        return json.dumps({**fields, **({"kind": "click"} if self.cents is None else bought)}, ensure_ascii=False).encode()

    def altered(self) -> "Action":
        """Other content of the same identity and time."""
        return self._replace(ad=ADS[0])

    def row(self) -> dict[str, Any]:
        """What tables have of it."""
        return {"at": written_time(self.at), "ad": self.ad, "amount": written_decimal(self.cents, 2)}


Facts = Impression | Action
Sample = tuple[bytes | None, bytes, Facts | None, str]

_ANY: tuple[Callable[[bytes], bytes], ...] = (
    lambda _: b"",
    lambda good: good[:-1],
    lambda good: good + good,
    lambda good: good.replace(b'"user": "', b'"user": "\xff'),
    lambda good: good.replace(b'"ad"', b'"advertisement"'),
    lambda good: re.sub(rb'"at": "[0-9]{4}', b'"at": "1969', good),
    lambda good: good.replace(b'Z", "ad"', b'", "ad"'),
)
# Each takes a good value and breaks it in its own way.
BREAKS: dict[str, tuple[Callable[[bytes], bytes], ...]] = {
    "impressions": (
        *_ANY,
        lambda good: re.sub(rb'"cost": "[0-9.]+"', b'"cost": "0.00001"', good),
        lambda good: re.sub(rb'"cost": "[0-9.]+"', b'"cost": null', good),
    ),
    "actions": (*_ANY, lambda good: re.sub(rb'"kind": "\w+"', b'"kind": 1', good)),
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
    ads, users = zipf(Random(f"{seed} ads"), ADS), zipf(Random(f"{seed} users"), USERS, 0.8)
    breaks = broken(Random(f"{seed} breaks"), max(map(len, BREAKS.values())))
    kinds, dice, repeat = Random(f"{seed} kinds"), Random(f"{seed} amounts"), Random(f"{seed} repeats")
    recent: deque[tuple[str, Facts]] = deque(maxlen=RECENT)
    for number in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            source, facts = repeat.choice(recent)
            repeated = facts.altered() if repeat.random() < 0.1 else facts
            yield facts.user.encode(), repeated.encode(), facts._replace(copy=True), source
            continue
        (source,) = kinds.choices(SOURCES, SHARES)
        name, at, ad, user = f"{seed:x}-{number}", next(times), next(ads), next(users)
        if source == "impressions":
            facts = Impression(name, at, ad, user, dice.randrange(1, 500))
        else:
            facts = Action(name, at, ad, user, dice.randrange(100, 20_000) if dice.random() < BOUGHT else None)
        value, kind = facts.encode(), next(breaks)
        if kind is not None:
            ways = BREAKS[source]
            yield user.encode(), ways[kind % len(ways)](value), None, source
            continue
        if duplicates:
            recent.append((source, facts))
        yield user.encode(), value, facts, source


class Truth:
    """The expected answers of every view of this example for the facts added so far, in the order of sending."""

    def __init__(self) -> None:
        self._ads: defaultdict[tuple[int, str], AdCounts] = defaultdict(AdCounts)
        self._journeys: defaultdict[tuple[int, str], defaultdict[str, list[Action]]] = defaultdict(lambda: defaultdict(list))
        self._purchases: dict[tuple[str, int], Action] = {}

    def add(self, facts: Facts) -> None:
        """Count one well-formed record, unless it is a copy."""
        if facts.copy:
            return
        hour = self._ads[facts.at // HOUR, facts.ad]
        hour.count(facts)
        if isinstance(facts, Action):
            self._journeys[facts.at // DAY, _campaign(facts.ad)][facts.user].append(facts)
            if facts.cents is not None:
                self._purchases[facts.user, facts.at] = facts

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them, in any order."""
        whole: dict[str, Any] = {"window_start": None, "window_end": None}
        days: defaultdict[tuple[int, str], AdCounts] = defaultdict(AdCounts)
        every = AdCounts()
        for (hour, ad), counts in self._ads.items():
            days[hour * HOUR // DAY, _campaign(ad)].unite(counts)
            every.unite(counts)
        sums = {name: value for name, value in every.row().items() if name != "click_rate"}
        last = {user: self._purchases[user, at] for user, at in sorted(self._purchases)}
        return {
            "ad_hours": [{"ad": ad, **window(hour, HOUR), **counts.row()} for (hour, ad), counts in self._ads.items()],
            "campaign_days": [
                {"campaign": campaign, **window(day, DAY), **counts.row()} for (day, campaign), counts in days.items()
            ],
            "overall": [whole | sums] if self._ads else [],
            "journeys": [
                {"campaign": campaign, **window(day, DAY), **_journey([*users.values()])}
                for (day, campaign), users in self._journeys.items()
            ],
            "last_purchase_versions": [
                {"user": user, "valid_from": written_time(at), **whole, **purchase.row()}
                for (user, at), purchase in self._purchases.items()
            ],
            "last_purchase": [{"user": user, **whole, **purchase.row()} for user, purchase in last.items()],
        }


class AdCounts:
    """What an advertisement, or several, had in a window."""

    def __init__(self) -> None:
        self.shown, self.clicks = 0, 0
        self.cost: int | None = None
        self.sold: int | None = None

    def count(self, facts: Facts) -> None:
        """Count one event."""
        if isinstance(facts, Impression):
            self.shown += 1
            self.cost = (self.cost or 0) + facts.cost
        elif facts.cents is None:
            self.clicks += 1
        else:
            self.sold = (self.sold or 0) + facts.cents

    def unite(self, other: "AdCounts") -> None:
        """Add the events of other counts."""
        self.shown += other.shown
        self.clicks += other.clicks
        self.cost = _sum(self.cost, other.cost)
        self.sold = _sum(self.sold, other.sold)

    def row(self) -> dict[str, Any]:
        """The measures."""
        rate = self.clicks / self.shown if self.shown else None
        return {
            "shown": self.shown,
            "cost": written_decimal(self.cost, 4),
            "clicks": self.clicks,
            "sold": written_decimal(self.sold, 2),
            "click_rate": rate,
        }


def _sum(one: int | None, other: int | None) -> int | None:
    """The sum; null, as in SQL, of nothing."""
    return one if other is None else other if one is None else one + other


def _campaign(ad: str) -> str:
    return ad.split("-", maxsplit=1)[0]


def _journey(users: list[list[Action]]) -> dict[str, Any]:
    """The measures of a campaign's day, whose actions are given by user."""
    clicked = bought = hesitant = 0
    waits: list[int] = []
    for actions in users:
        actions.sort(key=lambda action: action.at)
        clicks = [(place, action.at) for place, action in enumerate(actions) if action.cents is None]
        buys = [(place, action.at) for place, action in enumerate(actions) if action.cents is not None]
        after = [[buy - at for place, buy in buys if place > first] for first, at in clicks]
        clicked += bool(clicks)
        bought += any(wait <= 30 * MINUTE for later in after for wait in later)
        waits += [later[0] for later in after if later and later[0] <= HOUR]
        hesitant += len(re.findall("c{3,}b", "".join("c" if action.cents is None else "b" for action in actions)))
    number, seconds = len(waits), written_decimal(sum(waits), 6)
    return {
        "users": [clicked, bought],
        "bought": bought / clicked if clicked else None,
        "hesitant": hesitant,
        "purchases": {
            "count": number,
            "matched": number,
            "wait": seconds,
            "shortest": written_decimal(min(waits, default=None), 6),
            "longest": written_decimal(max(waits, default=None), 6),
        },
        "mean_wait": float(Fraction(sum(waits), number * SECOND)) if number else None,
    }
