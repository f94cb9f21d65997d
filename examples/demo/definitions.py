"""A shop in three formats: requests as JSON, orders as CSV rows, deliveries as Avro."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated

from tandem import (
    Alert,
    Event,
    Scale,
    Sink,
    Source,
    View,
    all_time,
    approx_count_distinct,
    avro,
    count,
    csv,
    delta_table,
    kafka_topic,
    maximum,
    mean,
    total,
    tumbling,
)


class Request(Event):
    """One answered request, a JSON object."""

    request_id: str
    at: datetime
    user: str
    path: str
    status: int
    bytes: int


class Order(Event):
    """One order, a CSV row of these columns."""

    order_id: str
    at: datetime
    city: str
    items: int
    amount: Annotated[Decimal, Scale(2)]


class Delivery(Event):
    """One parcel that was delivered, an Avro record."""

    parcel_id: str
    at: datetime
    depot: str
    grams: int
    minutes: int
    express: bool


DELIVERY_SCHEMA = {
    "type": "record",
    "name": "Delivery",
    "fields": [
        {"name": "parcel_id", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "depot", "type": "string"},
        {"name": "grams", "type": "long"},
        {"name": "minutes", "type": "int"},
        {"name": "express", "type": "boolean"},
    ],
}

requests = Source(topic="requests", event=Request, event_time="at", identity=("request_id",))
orders = Source(
    topic="orders",
    event=Order,
    decoder=csv(columns=("order_id", "at", "city", "items", "amount")),
    event_time="at",
    identity=("order_id",),
)
deliveries = Source(
    topic="deliveries",
    event=Delivery,
    decoder=avro(schema=DELIVERY_SCHEMA),
    event_time="at",
    identity=("parcel_id",),
)

page_traffic = View(
    source=requests,
    where="status < 500",
    keys={"page": "path"},
    window=tumbling(minutes=1),
    measures={"hits": count(), "bytes": total("bytes"), "visitors": approx_count_distinct('"user"')},
)

traffic = View(
    source=requests,
    window=all_time(),
    measures={"requests": count(), "bytes": total("bytes"), "mean_bytes": mean("bytes"), "last": maximum('"at"')},
)

city_sales = View(
    source=orders,
    keys={"city": "upper(city)"},
    window=tumbling(hours=1),
    measures={"orders": count(), "revenue": total("amount"), "largest": maximum("amount")},
)

sales = View(source=orders, window=all_time(), measures={"orders": count(), "revenue": total("amount")})

depot_parcels = View(
    source=deliveries,
    keys={"depot": "depot"},
    window=tumbling(hours=1),
    measures={"parcels": count(), "express": count(filter="express"), "slowest": maximum("minutes")},
)

parcels = View(source=deliveries, window=all_time(), measures={"parcels": count(), "grams": total("grams")})

sales_lake = Sink(city_sales, to=delta_table("lake/city_sales"))
calm_hours = Sink(city_sales, to=kafka_topic("calm-hours"), where="orders < 100")
busy_city = Alert(city_sales, when="orders >= 300", text="{city}: {orders} orders, {revenue:,} in the hour from {window_start}")

SOURCES = (requests, orders, deliveries)
VIEWS = (page_traffic, traffic, city_sales, sales, depot_parcels, parcels)
SINKS = (sales_lake, calm_hours)
ALERTS = (busy_city,)
