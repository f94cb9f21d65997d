"""Temperature sensors: readings that arrive late and out of order, aggregated by time and by order of arrival."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Annotated, Literal

from tandem import (
    Event,
    Scale,
    Source,
    View,
    bool_or,
    count,
    delta,
    histogram,
    hopping,
    maximum,
    mean,
    minimum,
    punctuation,
    sliding_count_window,
    tumbling,
)


class Message(Event):
    """A reading, or a marker: the sensor was calibrated, or a shift ended. Markers have no temperature."""

    sensor: str
    number: int
    time: datetime
    kind: Literal["reading", "calibrated", "shift_end"]
    celsius: Annotated[Decimal, Scale(1)] | None
    battery: int


# The key puts the messages of one sensor into one partition of the log, in the order of arrival.
messages = Source(
    topic="sensors",
    event=Message,
    event_time="time",
    identity=("sensor", "number"),
    lateness=timedelta(hours=6),
    key="sensor",
)

climate = View(
    source=messages,
    keys={"sensor": "sensor"},
    window=hopping(timedelta(minutes=30), every=timedelta(minutes=10)),
    measures={
        "messages": count(),
        "mean_celsius": mean("celsius"),
        "coldest": minimum("celsius"),
        "warmest": maximum("celsius"),
    },
)

temperatures = View(
    source=messages,
    window=tumbling(hours=1),
    measures={
        "celsius": histogram("celsius", (-10, 0, 10, 20, 30)),
        "readings": count(filter="kind = 'reading'"),
        "low_battery": bool_or("battery < 10"),
    },
)

recent = View(
    source=messages,
    where="kind = 'reading'",
    keys={"sensor": "sensor"},
    window=sliding_count_window(5),
    measures={"readings": count(), "mean_celsius": mean("celsius"), "battery": minimum("battery")},
)

moves = View(
    source=messages,
    keys={"sensor": "sensor"},
    window=delta("celsius", by=Decimal("1.5")),
    measures={"messages": count(), "coldest": minimum("celsius"), "warmest": maximum("celsius")},
)

shifts = View(
    source=messages,
    keys={"sensor": "sensor"},
    window=punctuation("kind = 'shift_end'"),
    measures={
        "messages": count(),
        "calibrations": count(filter="kind = 'calibrated'"),
        "mean_celsius": mean("celsius"),
        "warmest": maximum("celsius"),
    },
)

SOURCES = (messages,)
VIEWS = (climate, temperatures, recent, moves, shifts)
