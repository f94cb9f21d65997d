"""What a project's own tests use: events written down, answers as `query --json` prints them."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Literal

from tandem.views.measures import approx_quantiles, count, mean, total
from tandem.views.source.event import Event, Scale
from tandem.views.source.source import Source
from tandem.views.testing import answer, rejected
from tandem.views.view import View
from tandem.views.windows import tumbling


class Sale(Event):
    number: int
    at: datetime
    amount: Annotated[Decimal, Scale(2)]
    channel: Literal["shop", "web"] = "web"


SALES = Source(topic="sales", event=Sale, event_time="at", identity=("number",))
HOURLY = View(
    SALES,
    keys={"channel": "channel"},
    window=tumbling(hours=1),
    measures={"n": count(), "amount": total("amount"), "mean": mean("amount"), "q": approx_quantiles("amount", (0.5,))},
)


def sale(number: int, hour: int, amount: str, channel: Literal["shop", "web"] = "web") -> Sale:
    return Sale(number=number, at=datetime(2026, 11, 1, hour, 30, tzinfo=UTC), amount=Decimal(amount), channel=channel)


def test_answers_are_rows_in_order_without_copies() -> None:
    first = sale(1, 9, "1.10")
    assert answer(HOURLY, [sale(3, 10, "5"), first, sale(2, 9, "2.20"), first, sale(4, 9, "7", "shop")]) == [
        row("shop", 9, n=1, amount="7.00", mean=7.0, median=7.0),
        row("web", 9, n=2, amount="3.30", mean=1.65, median=1.1),
        row("web", 10, n=1, amount="5.00", mean=5.0, median=5.0),
    ]


def row(channel: str, hour: int, *, n: int, amount: str, mean: float, median: float) -> dict[str, object]:
    return {
        "channel": channel,
        "window_start": f"2026-11-01T{hour:02}:00:00Z",
        "window_end": f"2026-11-01T{hour + 1:02}:00:00Z",
        # The newest event is of half past ten.
        "window_state": "final" if hour == 9 else "open",
        "n": n,
        "amount": amount,
        "mean": mean,
        "q": {"0.5": median},
    }


def test_no_events_no_rows() -> None:
    assert answer(HOURLY, []) == []


def test_rejections_are_counted() -> None:
    view = View(SALES, measures={"n": total("1 // (number - 1)")})
    assert rejected(view, [sale(1, 9, "1"), sale(2, 9, "1")]) == {"expression": 1}
