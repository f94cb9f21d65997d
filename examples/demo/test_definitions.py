"""The shop's definitions on events few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime
from decimal import Decimal

from definitions import Delivery, Order, Request, city_sales, depot_parcels, page_traffic, parcels, sales, traffic

from tandem.testing import answer


def at(hour: int = 8, minute: int = 0) -> datetime:
    return datetime(2026, 11, 1, hour, minute, 30, tzinfo=UTC)


def request(number: int, *, minute: int = 0, status: int = 200, size: int = 100) -> Request:
    return Request(request_id=f"r{number}", at=at(minute=minute), user="ann", path="/shop", status=status, bytes=size)


def order(number: int, amount: str, *, city: str = "Oslo", hour: int = 8) -> Order:
    return Order(order_id=f"o{number}", at=at(hour), city=city, items=2, amount=Decimal(amount))


def delivery(number: int, *, depot: str = "north", minutes: int = 60, express: bool = False) -> Delivery:
    return Delivery(parcel_id=f"p{number}", at=at(), depot=depot, grams=500, minutes=minutes, express=express)


def test_pages_are_counted_by_the_minute_without_failures() -> None:
    rows = answer(page_traffic, [request(1), request(2), request(3, minute=1), request(4, status=503)])
    assert [(row["page"], row["hits"], row["bytes"], row["visitors"]) for row in rows] == [
        ("/shop", 2, 200, 1),
        ("/shop", 1, 100, 1),
    ]


def test_traffic_counts_a_request_that_is_sent_twice_once() -> None:
    (row,) = answer(traffic, [request(1), request(1), request(2, size=300, status=503)])
    assert (row["requests"], row["bytes"], row["mean_bytes"], row["last"]) == (2, 400, 200.0, "2026-11-01T08:00:30Z")


def test_sales_are_exact_to_the_cent() -> None:
    events = [order(1, "0.10"), order(2, "0.20", city="OSLO"), order(3, "5.00", hour=9)]
    assert [(row["city"], row["orders"], row["revenue"], row["largest"]) for row in answer(city_sales, events)] == [
        ("OSLO", 2, "0.30", "0.20"),
        ("OSLO", 1, "5.00", "5.00"),
    ]
    assert [(row["orders"], row["revenue"]) for row in answer(sales, events)] == [(3, "5.30")]


def test_parcels_are_counted_by_depot() -> None:
    events = [delivery(1), delivery(2, minutes=90, express=True), delivery(3, depot="south")]
    assert [(row["depot"], row["parcels"], row["express"], row["slowest"]) for row in answer(depot_parcels, events)] == [
        ("north", 2, 1, 90),
        ("south", 1, 0, 60),
    ]
    assert [(row["parcels"], row["grams"]) for row in answer(parcels, events)] == [(3, 1500)]
