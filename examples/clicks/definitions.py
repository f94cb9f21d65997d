"""Advertisements: how often they are seen, clicked and bought from, by two sources together, and who goes how far."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated

from tandem import (
    Event,
    Scale,
    Source,
    Table,
    View,
    all_time,
    calendar,
    count,
    derived,
    funnel,
    matches,
    pairs,
    rollup,
    total,
    tumbling,
)


class Impression(Event):
    """An advertisement was shown to a user."""

    impression_id: str
    at: datetime
    ad: str
    user: str
    cost: Annotated[Decimal, Scale(4)]


class Action(Event):
    """A user clicked an advertisement (`click`), or bought what it shows (`buy`) for an amount."""

    action_id: str
    at: datetime
    ad: str
    user: str
    kind: str
    amount: Annotated[Decimal, Scale(2)] | None = None


impressions = Source(topic="impressions", event=Impression, event_time="at", identity=("impression_id",))

# The key puts the actions of one user into one partition of the log, in their order.
actions = Source(topic="actions", event=Action, event_time="at", identity=("action_id",), key="user")

# One row per advertisement and hour, if either source has an event there.
ad_hours = View(
    source=(impressions, actions),
    keys={"ad": "ad"},
    window=tumbling(hours=1),
    measures={
        "shown": count(of=impressions),
        "cost": total("cost", of=impressions),
        "clicks": count(of=actions, filter="kind = 'click'"),
        "sold": total("amount", of=actions),
        "click_rate": derived("clicks / shown"),
    },
)

campaign_days = rollup(ad_hours, keys={"campaign": "split_part(ad, '-', 1)"}, window=calendar("day", zone="UTC"))
overall = rollup(campaign_days, keys=(), window=all_time(), measures=("shown", "cost", "clicks", "sold"))

# Every measure reads the same events in order, whichever came late.
journeys = View(
    source=actions,
    keys={"campaign": "split_part(ad, '-', 1)"},
    window=tumbling(days=1),
    measures={
        "users": funnel(("kind = 'click'", "kind = 'buy'"), within=timedelta(minutes=30), by='"user"', limit=100_000),
        "bought": derived("users[2] / users[1]"),
        "hesitant": matches(
            "click{3,} buy", define={"click": "kind = 'click'", "buy": "kind = 'buy'"}, by='"user"', limit=100_000
        ),
        "purchases": pairs("kind = 'click'", "kind = 'buy'", within=timedelta(hours=1), by='"user"', first=True, limit=100_000),
        "mean_wait": derived("purchases.wait / purchases.count"),
    },
)

last_purchase = Table(
    actions, key={"user": '"user"'}, where="kind = 'buy'", fields={"at": '"at"', "ad": "ad", "amount": "amount"}
)

SOURCES = (impressions, actions)
VIEWS = (ad_hours, campaign_days, overall, journeys, last_purchase)
