"""Sample card payments, and the expected answers of every view of this example.

`generate` yields samples (key, value, facts): a record's key, which is the card, its value, and the facts of a well-formed
record, None for a malformed one. `Truth` sums up facts in plain Python and imports nothing of the platform.
"""

import json
import re
from collections import defaultdict, deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from examples.traffic import DAY, HOUR, MINUTE, broken, event_times, zipf
from examples.truth import EPOCH, Place, bounds, place_of, sessions, window, written_decimal, written_time

SOURCE = "payments"

CARDS = tuple(f"card-{number}" for number in range(1_500))
MERCHANTS = ("Café Nord", 'The "Corner"', "東京ストア", *(f"shop {number}" for number in range(200)))
COUNTRIES = ("DE", "FR", "NL", "US", "JP", "BR")
DECLINED = 0.07

ZONE = ZoneInfo("Europe/Berlin")
GAP = 2 * MINUTE
RECENT = 500


class Payment(NamedTuple):
    """The facts of one well-formed record. A copy repeats an identity that was sent before, and does not count."""

    at: int
    card: str
    merchant: str
    country: str
    cents: int
    declined: bool
    copy: bool = False


Sample = tuple[bytes | None, bytes, Payment | None]

# Each takes a good value and breaks it in its own way.
BREAKS = (
    lambda _: b"",
    lambda _: b"card-1;12.30;DE",
    lambda good: good[:-1],
    lambda good: good + good,
    lambda good: b"[" + good + b"]",
    lambda good: good.replace(b'"card":"', b'"card":"\xff'),
    lambda good: good.replace(b'"merchant"', b'"shop"'),
    lambda good: re.sub(rb'"amount":"[0-9.]+"', b'"amount":"a lot"', good),
    lambda good: re.sub(rb'"amount":"[0-9.]+"', b'"amount":"12.345"', good),
    lambda good: re.sub(rb'"amount":"[0-9.]+"', b'"amount":"1e40"', good),
    lambda good: re.sub(rb'"amount":"[0-9.]+"', b'"amount":null', good),
    lambda good: re.sub(rb'"declined":(true|false)', b'"declined":"no"', good),
    lambda good: re.sub(rb'"declined":(true|false)', b'"declined":0', good),
    lambda good: good.replace(b'Z","card"', b'","card"'),
    lambda good: re.sub(rb'"time":"[0-9]{4}', b'"time":"1969', good),
    lambda good: re.sub(rb'"transaction_id":"[^"]+"', b'"transaction_id":17', good),
)


def generate(seed: int, n: int, *, base: datetime, per_second: float = 20.0, duplicates: float = 0.0) -> Iterator[Sample]:
    """The first `n` samples of `seed`: the same ones for the same seed, base and shares, whatever `n` is.

    `base` is the first event time and `per_second` the mean number of events in a second of event time. `duplicates` is the
    share of records that repeat one of the 500 before them, with the same identity and event time; every tenth of those
    differs in content.
    """
    if base.tzinfo is None:
        raise ValueError(f"base {base} has no time zone")
    times = event_times(Random(f"{seed} times"), (base - EPOCH) // timedelta(microseconds=1), per_second)
    cards = zipf(Random(f"{seed} cards"), CARDS, 0.8)
    merchants = zipf(Random(f"{seed} merchants"), [(name, json.dumps(name, ensure_ascii=False)) for name in MERCHANTS])
    countries = zipf(Random(f"{seed} countries"), COUNTRIES, 1.8)
    breaks = broken(Random(f"{seed} breaks"), len(BREAKS))
    draw = Random(f"{seed} payments").random
    repeat = Random(f"{seed} repeats")
    recent: deque[tuple[bytes, Payment]] = deque(maxlen=RECENT)
    for i in range(n):
        if duplicates and recent and repeat.random() < duplicates:
            value, facts = repeat.choice(recent)
            if repeat.random() < 0.1:
                value = value.replace(b'"amount":"', b'"amount":"1')
            yield facts.card.encode(), value, facts._replace(copy=True)
            continue
        at, card, country = next(times), next(cards), next(countries)
        merchant, merchant_json = next(merchants)
        cents, declined = int(99 + 900 * draw() ** -0.8), draw() < DECLINED
        value = (
            f'{{"transaction_id":"{seed:x}-{i}","time":"{written_time(at)}","card":"{card}","merchant":{merchant_json},'
            f'"country":"{country}","amount":"{written_decimal(cents, 2)}","declined":{"true" if declined else "false"}}}'
        ).encode()
        kind = next(breaks)
        if kind is not None:
            yield card.encode(), BREAKS[kind](value), None
            continue
        facts = Payment(at, card, merchant, country, cents, declined)
        if duplicates:
            recent.append((value, facts))
        yield card.encode(), value, facts


class Truth:
    """The expected answers of every view of this example for the facts added so far, in the order of sending."""

    def __init__(self, topic_id: str, partitions: int) -> None:
        self._topic = (topic_id, partitions)
        self._merchants: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0, 0])
        self._top: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        self._amounts: defaultdict[tuple[int, str], list[int]] = defaultdict(lambda: [0, 0])
        self._cards: defaultdict[str, list[Payment]] = defaultdict(list)
        self._hundreds: defaultdict[tuple[str, Place], list[list[Payment]]] = defaultdict(list)

    def add(self, facts: Payment) -> None:
        """Count one well-formed record, unless it is a copy."""
        if facts.copy:
            return
        hour, cents = facts.at // HOUR, facts.cents
        if not facts.declined:
            merchant = self._merchants[hour, facts.merchant]
            merchant[0] += 1
            merchant[1] += cents
            merchant[2] = max(merchant[2], cents)
            top = self._top[facts.at // DAY, facts.country]
            top[0] += 1
            top[1] += cents
        amount = self._amounts[hour, facts.country]
        amount[0] += 1
        amount[1] += cents
        self._cards[facts.card].append(facts)
        hundreds = self._hundreds[facts.merchant, self._place(facts.card)]
        if not hundreds or len(hundreds[-1]) == 100:
            hundreds.append([])
        hundreds[-1].append(facts)

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name as `tandem query --json` prints them: exact measures only, in any order."""
        return {
            "merchant_hours": [
                {"merchant": merchant, **window(hour, HOUR), "payments": number}
                | {"spent": written_decimal(cents, 2), "largest": written_decimal(largest, 2)}
                for (hour, merchant), (number, cents, largest) in self._merchants.items()
            ],
            "top_merchants": [
                {"country": country, **window(day, DAY), "payments": number, "spent": written_decimal(cents, 2)}
                for (day, country), (number, cents) in self._top.items()
            ],
            "amounts": [
                {"country": country, **window(hour, HOUR), "mean_amount": cents / (100 * number)} | {"payments": number}
                for (hour, country), (number, cents) in self._amounts.items()
            ],
            "card_sessions": [
                {"card": card, **bounds(one[0].at, one[-1].at + GAP), "payments": len(one)}
                | {"spent": _total(payment for payment in one if not payment.declined), "declines": _declines(one)}
                for card, payments in self._cards.items()
                for one in sessions(payments, GAP)
            ],
            "card_days": [
                {"card": card, **day, "countries": sorted({payment.country for payment in payments}), "payments": len(payments)}
                for card, all_payments in self._cards.items()
                for day, payments in _days(all_payments)
            ],
            "recent_declines": [
                {"card": card, **_between(payments[-10:]), **self._place(card)._asdict()}
                | {"payments": len(payments[-10:]), "declines": _declines(payments[-10:])}
                for card, payments in self._cards.items()
            ],
            "merchant_hundreds": [
                {"merchant": merchant, **_between(payments), **place._asdict(), "window_number": number}
                | {"payments": len(payments), "amount": _total(payments), "declines": _declines(payments)}
                for (merchant, place), hundreds in self._hundreds.items()
                for number, payments in enumerate(hundreds)
            ],
            "card_risk": [
                {"card": card, "window_start": None, "window_end": None, "payments": len(payments)}
                | {"declines": _declines(payments), "decline_rate": _declines(payments) / len(payments)}
                | {"score": _score(payments)}
                for card, payments in self._cards.items()
            ],
        }

    def _place(self, card: str) -> Place:
        return place_of(card.encode(), *self._topic)


def _between(payments: list[Payment]) -> dict[str, str]:
    times = [payment.at for payment in payments]
    return bounds(min(times), max(times))


def _declines(payments: list[Payment]) -> int:
    return sum(payment.declined for payment in payments)


def _total(payments: Iterator[Payment] | list[Payment]) -> str | None:
    """The sum; null, as in SQL, without values."""
    cents = [payment.cents for payment in payments]
    return written_decimal(sum(cents), 2) if cents else None


def _days(payments: list[Payment]) -> Iterator[tuple[dict[str, str], list[Payment]]]:
    """The payments by the day that a clock in the zone shows, with the day's bounds."""
    days: defaultdict[datetime, list[Payment]] = defaultdict(list)
    for payment in payments:
        local = (EPOCH + timedelta(microseconds=payment.at)).astimezone(ZONE)
        days[local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)].append(payment)
    for day, held in days.items():
        start, end = (midnight.replace(tzinfo=ZONE) for midnight in (day, day + timedelta(days=1)))
        yield bounds(*((time - EPOCH) // timedelta(microseconds=1) for time in (start, end))), held


def _score(payments: list[Payment]) -> int:
    hours = {payment.at // HOUR % 24 for payment in payments}
    return min(100, 3 * len(hours) + 10 * _declines(payments))
