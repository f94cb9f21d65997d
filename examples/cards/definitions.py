"""Card payments: where money is spent, how each card is used, and which cards look suspicious."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import numpy as np
import pyarrow as pa

from tandem import (
    CustomMeasure,
    Event,
    Scale,
    Source,
    View,
    all_time,
    approx_count_distinct,
    approx_quantiles,
    approx_top_k,
    calendar,
    collect_set,
    count,
    count_window,
    derived,
    maximum,
    mean,
    session,
    sliding_count_window,
    total,
    tumbling,
)

MOST_POINTS = 100


class Payment(Event):
    """One attempt to pay, accepted or declined."""

    transaction_id: str
    time: datetime
    card: str
    merchant: str
    country: str
    amount: Annotated[Decimal, Scale(2)]
    declined: bool


@dataclass(frozen=True)
class FraudScore(CustomMeasure):
    """0 to 100 points: a fixed number for each different hour of the day with an event, and for each event with a flag.

    A person sleeps and does not retry again and again; a stolen number is tried around the clock.
    """

    hour: str
    flag: str
    per_hour: int
    per_flag: int

    # One bit for each hour of the day, and a number.
    state = pa.struct([("hours", pa.int64()), ("flags", pa.int64())])
    answer = pa.int64()

    @property
    def inputs(self) -> tuple[str, ...]:
        """An hour from 0 to 23, and a condition."""
        return (self.hour, self.flag)

    def partial(self, groups: pa.ListArray) -> pa.Array:
        """The hours and flags of events."""
        hours, flags = (groups.values.field(name).to_numpy(zero_copy_only=False) for name in ("v0", "v1"))
        return self._united(groups, np.left_shift(np.int64(1), hours), flags.astype(np.int64))

    def merge(self, groups: pa.ListArray) -> pa.Array:
        """The hours and flags of states."""
        return self._united(groups, *(groups.values.field(name).to_numpy() for name in ("hours", "flags")))

    def present(self, states: pa.Array) -> pa.Array:
        """The points."""
        hours = np.bitwise_count(states.field("hours").to_numpy()).astype(np.int64)
        flags = np.minimum(states.field("flags").to_numpy(), MOST_POINTS)
        return pa.array(np.minimum(self.per_hour * hours + self.per_flag * flags, MOST_POINTS))

    def strategy(self) -> Any:
        """Events for `tandem check --laws`."""
        from hypothesis import strategies as st  # noqa: PLC0415  only the check needs it

        return st.tuples(st.integers(0, 23), st.booleans())

    def _united(self, groups: pa.ListArray, hours: Any, flags: Any) -> pa.Array:
        starts = groups.offsets.to_numpy()[:-1]
        united = [np.bitwise_or.reduceat(hours, starts), np.add.reduceat(flags, starts)]
        return pa.StructArray.from_arrays([pa.array(part) for part in united], fields=list(self.state))


# The key puts the payments of one card into one partition of the log, in their order.
payments = Source(topic="payments", event=Payment, event_time="time", identity=("transaction_id",), key="card")

merchant_hours = View(
    source=payments,
    where="NOT declined",
    keys={"merchant": "merchant"},
    window=tumbling(hours=1),
    measures={
        "payments": count(),
        "spent": total("amount"),
        "largest": maximum("amount"),
        "cards": approx_count_distinct("card"),
    },
)

top_merchants = View(
    source=payments,
    where="NOT declined",
    keys={"country": "country"},
    window=tumbling(days=1),
    measures={"top": approx_top_k("merchant", 10), "payments": count(), "spent": total("amount")},
)

amounts = View(
    source=payments,
    keys={"country": "country"},
    window=tumbling(hours=1),
    measures={"amount": approx_quantiles("amount", (0.5, 0.95, 0.99)), "mean_amount": mean("amount"), "payments": count()},
)

card_sessions = View(
    source=payments,
    keys={"card": "card"},
    window=session(minutes=2),
    measures={"payments": count(), "spent": total("amount", filter="NOT declined"), "declines": count(filter="declined")},
)

card_days = View(
    source=payments,
    keys={"card": "card"},
    window=calendar("day", zone="Europe/Berlin"),
    measures={"countries": collect_set("country"), "payments": count()},
)

recent_declines = View(
    source=payments,
    keys={"card": "card"},
    window=sliding_count_window(10),
    measures={"payments": count(), "declines": count(filter="declined")},
)

# A merchant's payments are of many cards, so each partition counts its own hundreds; `tandem check` warns about it.
merchant_hundreds = View(
    source=payments,
    keys={"merchant": "merchant"},
    window=count_window(100),
    measures={"payments": count(), "amount": total("amount"), "declines": count(filter="declined")},
)

card_risk = View(
    source=payments,
    keys={"card": "card"},
    window=all_time(),
    measures={
        "payments": count(),
        "declines": count(filter="declined"),
        "decline_rate": derived("declines / payments"),
        "score": FraudScore('hour("time")', "declined", per_hour=3, per_flag=10),
    },
)

SOURCES = (payments,)
VIEWS = (
    merchant_hours,
    top_merchants,
    amounts,
    card_sessions,
    card_days,
    recent_declines,
    merchant_hundreds,
    card_risk,
)
