"""The reject of an item of a list or map names its field; the reject of a value of another type names the type that reads it."""

import json as plain
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest

from tandem import Event, Format, Scale, Source, json
from tandem.views.source.event import event_fields
from tests.views.logged import decoded


class Order(Event):
    at: datetime
    times: list[datetime]
    prices: dict[str, Annotated[Decimal, Scale(2)]]
    days: list[list[Annotated[date, Format("%d.%m.%Y")]]]


GOOD: dict[str, Any] = {"at": "2026-11-01T00:00:00Z", "times": [], "prices": {}, "days": []}
ORDERS = Source(topic="t", event=Order, event_time="at", decoder=json())


@pytest.mark.parametrize(
    ("value", "detail"),
    [
        (GOOD | {"times": ["x"]}, "field times[]: not a time of ISO 8601"),
        (GOOD | {"times": ["2026-11-01T00:00:00"]}, "field times[]: the time has no zone"),
        (GOOD | {"prices": {"a": "1_0"}}, "field prices[]: not a number: '1_0'"),
        (
            GOOD | {"prices": {"a": 1.005}},
            "field prices[] is not a finite decimal of 38 digits, 2 of them after the point: 1.005",
        ),
        (GOOD | {"days": [["1/1/26"]]}, "field days[][]: not a text of Format"),
        (
            GOOD | {"at": 1_793_491_200},
            'Expected `datetime`, got `int` - at `$.at`; Epoch("s"), "ms", "us" or "ns" reads numbers',
        ),
        ([GOOD], "Expected `object`, got `array`; max_events_per_record reads arrays of events"),
        (GOOD | {"prices": []}, "Expected `object`, got `array` - at `$.prices`"),
    ],
)
def test_a_reject_says_which_value_and_what_would_read_it(value: Any, detail: str) -> None:
    (row,) = decoded(ORDERS, plain.dumps(value).encode()).rejects.to_pylist()
    assert row["detail"].startswith(detail)


def test_items_are_named_for_their_field() -> None:
    days = next(field for field in event_fields(Order) if field.name == "days")
    assert days.items is not None
    assert days.items.items is not None
    assert (days.items.key, days.items.items.key) == ("days[]", "days[][]")
