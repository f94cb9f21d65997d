"""The cards' definitions on payments few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime
from decimal import Decimal

from definitions import (
    Payment,
    amounts,
    card_days,
    card_risk,
    card_sessions,
    merchant_hours,
    merchant_hundreds,
    recent_declines,
    top_merchants,
)

from tandem.testing import answer


def payment(
    number: int,
    *,
    hour: int = 8,
    minute: int = 0,
    card: str = "a",
    merchant: str = "Café Nord",
    country: str = "DE",
    amount: str = "10.00",
    declined: bool = False,
) -> Payment:
    return Payment(
        transaction_id=f"t{number}",
        time=datetime(2026, 11, 1, hour, minute, 30, tzinfo=UTC),
        card=card,
        merchant=merchant,
        country=country,
        amount=Decimal(amount),
        declined=declined,
    )


def test_only_accepted_payments_are_spent() -> None:
    payments = [payment(1, amount="0.10"), payment(2, amount="0.20", card="b"), payment(3, declined=True)]
    (row,) = answer(merchant_hours, payments)
    assert (row["payments"], row["spent"], row["largest"], row["cards"]) == (2, "0.30", "0.20", 2)


def test_top_merchants_come_in_order() -> None:
    (row,) = answer(top_merchants, [payment(1, merchant="x"), payment(2), payment(3), payment(3)])
    assert [(top["value"], top["estimate"]) for top in row["top"]] == [("Café Nord", 2), ("x", 1)]


def test_amounts_have_quantiles_and_a_mean() -> None:
    (row,) = answer(amounts, [payment(number, amount=f"{number}.00") for number in range(1, 10)])
    assert (row["amount"]["0.5"], row["mean_amount"]) == (5.0, 5.0)


def test_a_payment_in_between_makes_one_session_of_two() -> None:
    ends = [payment(1, minute=0), payment(2, minute=3, declined=True)]
    assert [(row["payments"], row["spent"]) for row in answer(card_sessions, ends)] == [(1, "10.00"), (1, None)]
    (row,) = answer(card_sessions, [*ends, payment(3, minute=2), payment(4, minute=1)])
    assert (row["window_start"], row["window_end"]) == ("2026-11-01T08:00:30Z", "2026-11-01T08:05:30Z")
    assert (row["payments"], row["declines"]) == (4, 1)


def test_a_day_is_one_in_berlin() -> None:
    rows = answer(card_days, [payment(1, hour=22, country="FR"), payment(2, hour=23), payment(3, country="DE")])
    assert [(row["window_start"], row["countries"]) for row in rows] == [
        ("2026-10-31T23:00:00Z", ["DE", "FR"]),
        ("2026-11-01T23:00:00Z", ["DE"]),
    ]


def test_declines_are_those_of_the_last_ten_payments_in_the_log() -> None:
    payments = [payment(1, hour=9, declined=True), payment(2, declined=True), *(payment(number) for number in range(3, 12))]
    (row,) = answer(recent_declines, payments)
    assert (row["payments"], row["declines"], row["window_end"]) == (10, 1, "2026-11-01T08:00:30Z")


def test_every_hundred_payments_of_a_merchant_are_a_window() -> None:
    rows = answer(merchant_hundreds, [payment(number, card=str(number)) for number in range(101)])
    assert [(row["window_number"], row["payments"], row["amount"]) for row in rows] == [(0, 100, "1000.00"), (1, 1, "10.00")]


def test_a_score_counts_hours_and_declines_and_has_a_limit() -> None:
    (row,) = answer(card_risk, [payment(1), payment(2, minute=5), payment(3, hour=9, declined=True)])
    assert (row["decline_rate"], row["score"]) == (1 / 3, 3 * 2 + 10)
    (row,) = answer(card_risk, [payment(number, declined=True) for number in range(30)])
    assert row["score"] == 100
