"""A shop: each order at the price of its own time, by what a table of the shop's database says of the article."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from tandem import Event, Name, Scale, Source, Table, View, calendar, count, debezium, derived, rollup, total, tumbling


class Price(Event):
    """An article costs this much from a time on, until the next price or until it is withdrawn."""

    change_id: str
    since: datetime
    sku: str
    price: Annotated[Decimal, Scale(2)]
    withdrawn: bool = False


class Article(Event):
    """A change of the database's table of articles, as Debezium writes it."""

    sku: str
    changed: Annotated[datetime, Name("__source_ts_us")]
    deleted: Annotated[bool, Name("__deleted")]
    category: str | None = None


class Order(Event):
    """Some items of an article were ordered."""

    order_id: str
    at: datetime
    sku: str
    city: str
    items: int


# The key puts all versions of one article into one partition of the log, in their order.
prices = Source(topic="prices", event=Price, event_time="since", identity=("change_id",), key="sku")
articles = Source(topic="articles", event=Article, event_time="changed", decoder=debezium())
orders = Source(topic="orders", event=Order, event_time="at", identity=("order_id",))

price_of = Table(prices, key={"sku": "sku"}, gone="withdrawn", fields={"price": "price"})

# What the database's table has now, whatever its clock did.
article_of = Table(articles, key={"sku": "sku"}, gone="deleted", fields={"category": "category"}, order="log")

# One row per city and hour. A price that comes late changes past hours with the next recompute.
sales = View(
    source=orders,
    lookup={"p": price_of.as_of(sku="sku")},
    keys={"city": "city"},
    window=tumbling(hours=1),
    measures={
        "orders": count(),
        "items": total("items"),
        "revenue": total("items * p.price"),
        "unpriced": count(filter="p IS NULL"),
        "share_unpriced": derived("unpriced / orders"),
    },
)
sales_days = rollup(
    sales, keys=(), window=calendar("day", zone="Europe/Oslo"), measures=("orders", "items", "revenue", "unpriced")
)

# By the category that an article has today; orders of articles that are gone have none.
category_days = View(
    source=orders,
    lookup={"a": article_of.now(sku="sku")},
    keys={"category": "a.category"},
    window=tumbling(days=1),
    measures={"orders": count(), "items": total("items")},
)

SOURCES = (prices, articles, orders)
VIEWS = (price_of, article_of, sales, sales_days, category_days)
