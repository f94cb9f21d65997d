"""The sources and views of this project: every number is defined here, once."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Literal

from tandem import Event, Scale, Source, View, approx_count_distinct, count, maximum, total, tumbling


class Order(Event):
    """One order, as a shop or the web site sends it."""

    order_id: str
    at: datetime
    customer: str
    city: str
    channel: Literal["shop", "web"]
    items: int
    amount: Annotated[Decimal, Scale(2)]


orders = Source(topic="orders", event=Order, event_time="at", identity=("order_id",))

sales = View(
    source=orders,
    keys={"city": "upper(city)"},
    window=tumbling(hours=1),
    measures={
        "orders": count(),
        "items": total("items"),
        "revenue": total("amount"),
        "customers": approx_count_distinct("customer"),
    },
)

channels = View(
    source=orders,
    where="amount > 0",
    keys={"channel": "channel"},
    measures={"orders": count(), "largest": maximum("amount")},
)

SOURCES = (orders,)
VIEWS = (sales, channels)
