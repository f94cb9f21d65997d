"""Random events are such as a decoder could have given."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Literal
from uuid import UUID

import msgspec
from hypothesis import given

from tandem.views.decode import decode
from tandem.views.source.event import Event, Scale
from tandem.views.source.source import Source
from tandem.views.testing import events_table
from tandem.views.verify.random_events import events
from tests.samples import SAMPLES, share
from tests.views.logged import records


class Colour(Enum):
    RED = "r"
    BLUE = "b"


class Place(msgspec.Struct):
    lat: Annotated[float, msgspec.Meta(ge=-90, le=90)]
    name: str | None = None


class Rich(Event):
    at: datetime
    colour: Colour
    kind: Literal["a", "b"]
    place: Place
    ids: Annotated[list[UUID], msgspec.Meta(min_length=1, max_length=2)]
    amount: Annotated[Decimal, Scale(2)]
    days: list[date | None]
    code: Annotated[str, msgspec.Meta(pattern="^[A-Z]{2}$", max_length=2)]
    low: Annotated[int, msgspec.Meta(gt=3, le=40, multiple_of=5)]
    share: Annotated[float, msgspec.Meta(gt=0, lt=1)]
    rounded: Annotated[Decimal, Scale(3, rounding="half_even")]
    prices: dict[str, Annotated[Decimal, Scale(2, rounding="half_even")] | None]
    places: dict[str, list[Place]]
    opens: time
    took: dict[str, timedelta]
    high: int = 50

    def __post_init__(self) -> None:
        if self.high < self.low:
            raise ValueError("high is below low")


RICH = Source(
    topic="rich",
    event=Rich,
    event_time="at",
    plausible=(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)),
)


@share(100)
@given(events(RICH))
def test_events_of_any_type_decode(event: Event) -> None:
    decodes(RICH, event)


@share(50)
@given(events(SAMPLES))
def test_events_with_every_kind_of_field_decode(event: Event) -> None:
    decodes(SAMPLES, event)


def decodes(source: Source, event: Event) -> None:
    """The event as JSON is the event again."""
    decoded = decode(source, records([msgspec.json.encode(event)]))
    assert decoded.rejects.to_pylist() == []
    fields = list(type(event).__struct_fields__)
    assert decoded.events.select(fields).to_pylist() == events_table(source, [event]).select(fields).to_pylist()
