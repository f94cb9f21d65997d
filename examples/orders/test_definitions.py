"""The definitions on events few enough to count by hand; runs without Java or Kafka."""

from datetime import UTC, datetime
from decimal import Decimal

from definitions import Article, Order, Price, article_of, category_days, price_of, sales

from tandem.testing import answer


def at(hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 11, 1, hour, minute, tzinfo=UTC)


def price(number: int, since: datetime, amount: str, *, withdrawn: bool = False) -> Price:
    return Price(change_id=f"p{number}", since=since, sku="tea", price=Decimal(amount), withdrawn=withdrawn)


def order(number: int, when: datetime, *, items: int = 1, sku: str = "tea") -> Order:
    return Order(order_id=f"o{number}", at=when, sku=sku, city="Oslo", items=items)


def article(changed: datetime, category: str | None) -> Article:
    return Article(sku="tea", changed=changed, deleted=category is None, category=category)


def test_an_order_has_the_price_of_its_own_time() -> None:
    prices = [price(1, at(8), "2.00"), price(2, at(8, 30), "3.00")]
    orders = [order(1, at(8, 10), items=2), order(2, at(8, 30)), order(3, at(8, 40), sku="pen")]
    (row,) = answer(sales, [*prices, *orders])
    assert (row["orders"], row["revenue"], row["unpriced"]) == (3, "7.00", 1)
    (row,) = answer(sales, [*orders, *prices])
    assert row["revenue"] == "7.00", "whichever came first"


def test_a_withdrawn_article_has_no_price() -> None:
    prices = [price(1, at(8), "2.00"), price(2, at(9), "2.00", withdrawn=True)]
    rows = answer(sales, [*prices, order(1, at(8, 59)), order(2, at(9, 1))])
    assert [(row["revenue"], row["unpriced"]) for row in rows] == [("2.00", 0), (None, 1)]
    assert answer(price_of, prices) == []


def test_a_category_is_that_of_the_last_change() -> None:
    changes = [article(at(9), "drink"), article(at(8), "kitchen")]
    (row,) = answer(category_days, [*changes, order(1, at(7), items=3)])
    assert (row["category"], row["items"]) == ("kitchen", 3)
    (row,) = answer(article_of, changes)
    assert row["category"] == "kitchen"
