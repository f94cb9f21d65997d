"""The model of answers, compared with itself: what it says must follow from the sets of events alone."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.views.source.event import Event
from tests.samples import just
from tests.together.model import Chain, Offsets, Place, RollupModel, Unplaced, ViewModel, all_time, answer, calendar, tumbling

HOUR = timedelta(hours=1)
NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
PLACES: tuple[Place, ...] = (("t", 0), ("t", 1))


class Sale(Event):
    """What the model's logs are of."""

    id: int
    at: datetime
    city: str | None
    amount: int


VIEW = ViewModel(
    keys={"city": lambda sale: sale["city"], "odd": lambda sale: sale["amount"] % 2},
    slices=tumbling(HOUR),
    measures={"n": len, "amount": lambda sales: sum(sale["amount"] for sale in sales)},
    where=lambda sale: bool(sale["amount"] < 90),
)
ROLLUPS = {
    "hours": RollupModel(VIEW, ("city",), tumbling(2 * HOUR)),
    "days": RollupModel(VIEW, ("odd",), calendar("day", ZoneInfo("Europe/Berlin")), ("n",)),
    "ever": RollupModel(VIEW, (), all_time),
}

sales = st.builds(
    lambda number, minutes, city, amount: {"id": number, "at": NOON + timedelta(minutes=minutes), "city": city, "amount": amount},
    st.integers(0, 12),
    st.integers(-3000, 3000),
    st.sampled_from(["Oslo", "Rome", None]),
    st.integers(0, 99),
)


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """A log with duplicates, a cut and micro-batches up to its end."""
    every = draw(st.lists(sales, max_size=12, unique_by=lambda sale: sale["id"]))
    listed = st.lists(st.sampled_from(every), max_size=8) if every else st.just([])
    log = {place: [{"_offset": offset, **sale} for offset, sale in enumerate(draw(listed))] for place in PLACES}
    steps = [{place: draw(st.integers(0, len(log[place]))) for place in PLACES} for _ in range(3)]
    ordered: list[Offsets] = [{place: sorted(step[place] for step in steps)[number] for place in PLACES} for number in range(3)]
    cut, *ends = ordered
    whole = {place: len(records) for place, records in log.items()}
    return Chain(log, cut, (*ends, whole), identity=lambda sale: sale["id"], lateness=HOUR)


def values(rows: Mapping[Any, Any]) -> dict[Any, Any]:
    return {group: row.values for group, row in rows.items()}


@pytest.mark.parametrize("name", ROLLUPS)
@just(1000, quick=40)
@given(chain=chains())
def test_a_rollup_depends_on_the_set_of_events_alone(name: str, chain: Chain) -> None:
    model, end = ROLLUPS[name], chain.ends[-1]
    whole = answer(model, replace(chain, cut=end, ends=()), layer="batch")
    assert values(answer(model, chain)) == values(whole)
    assert values(answer(model, replace(chain, cut={}, ends=(end,)))) == values(whole)
    assert not any(row.touched for row in whole.values())


@just(1000, quick=40)
@given(chain=chains())
def test_a_rollup_of_a_rollup_is_one_of_the_view(chain: Chain) -> None:
    days = tumbling(24 * HOUR)
    twice = RollupModel(RollupModel(VIEW, ("city", "odd"), tumbling(2 * HOUR)), ("city",), days)
    assert answer(twice, chain) == answer(RollupModel(VIEW, ("city",), days), chain)


def test_a_slice_that_lies_in_two_windows_is_refused() -> None:
    half_past = RollupModel(VIEW, (), calendar("day", ZoneInfo("Asia/Kolkata")))
    with pytest.raises(Unplaced):
        half_past.groups([{"at": datetime(2026, 3, 28, 18, 45, tzinfo=UTC), "city": "Oslo", "amount": 1}])


def test_a_day_on_which_clocks_change_has_23_hours() -> None:
    day = calendar("day", ZoneInfo("Europe/Berlin"))(datetime(2026, 3, 29, 12, tzinfo=UTC))
    assert day == (datetime(2026, 3, 28, 23, tzinfo=UTC), datetime(2026, 3, 29, 22, tzinfo=UTC))
