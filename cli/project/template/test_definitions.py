"""Tests of the definitions with a few small events, without Java or Kafka."""

from datetime import UTC, datetime
from decimal import Decimal

from definitions import Order, channels, sales

from tandem.testing import Answer, answer


def order(number: int, minute: int, city: str, amount: str) -> Order:
    return Order(
        order_id=f"o{number}",
        at=datetime(2026, 11, 1, 8, minute, tzinfo=UTC),
        customer="ann",
        city=city,
        channel="web",
        items=2,
        amount=Decimal(amount),
    )


def test_sales_add_up_by_city_whatever_its_case() -> None:
    (row,) = answer(sales, [order(1, 5, "Oslo", "10.00"), order(2, 50, "OSLO", "0.50")])
    assert row["city"] == "OSLO"
    assert (row["orders"], row["items"], row["revenue"], row["customers"]) == (2, 4, "10.50", 1)


def test_an_order_that_arrives_twice_counts_once() -> None:
    (row,) = answer(sales, [order(1, 5, "Oslo", "10.00")] * 2)
    assert row["orders"] == 1


def test_free_orders_are_no_sales_of_a_channel() -> None:
    assert answer(channels, [order(1, 5, "Oslo", "0.00")]) == []


def test_sales_are_the_same_wherever_batch_and_speed_layer_meet(tandem_checked_answer: Answer) -> None:
    """The fixture compares the rows with a plain oracle before it returns them: for all events, and split at every cut."""
    first, second, third = order(1, 5, "Oslo", "10.00"), order(2, 50, "OSLO", "0.50"), order(3, 20, "Bergen", "7.25")
    rows = tandem_checked_answer(sales, [first, second, third, first])
    assert [(row["city"], row["orders"], row["revenue"]) for row in rows] == [("BERGEN", 1, "7.25"), ("OSLO", 2, "10.50")]
