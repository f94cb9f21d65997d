"""A rollup's states, of batch and of every micro-batch, are the model's at any cut: one by one and then merged, or merged first.

The cases of a run share one log: each has two partitions of its own, its own cut and micro-batches, and is a value of the key
`trial`. So a thousand cases cost as many folds as one.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cache
from importlib import resources
from random import Random
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import settings

from tandem import (
    Event,
    Scale,
    Source,
    View,
    all_time,
    calendar,
    collect_set,
    count,
    derived,
    first,
    hopping,
    last,
    maximum,
    mean,
    rollup,
    total,
    tumbling,
)
from tandem.views.composite.rollup import Rollup
from tandem.views.kernel.kernel import Partial, merge, partial, present, roll
from tandem.views.source.offset_ranges import Ranges
from tandem.views.testing import rejected
from tandem.views.verify.every_cut import checked_answer
from tandem.views.view import bind, group_columns
from tests.agreement.oracle import plain
from tests.samples import LONGER, table
from tests.together import model
from tests.together.model import Chain, Model, RollupModel, ViewModel
from tests.together.split_logs import split_chain, split_partials

CASES = 10_000 if LONGER else 1_000
HOUR = timedelta(hours=1)
CHANGES = (datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 10, 25, 1, tzinfo=UTC))
"""When clocks change in Berlin; in Havana they change on other days, at midnight."""


class Bid(Event):
    """One field for each kind of state."""

    id: int
    trial: int
    at: datetime
    city: str | None
    amount: int
    price: Annotated[Decimal, Scale(2)]


BIDS = Source(topic="bids", event=Bid, event_time="at", identity=("id",), name="bids")
HOURLY = View(
    source=BIDS,
    keys={"trial": "trial", "city": "city", "odd": "amount % 2 = 1"},
    window=tumbling(hours=1),
    measures={
        "n": count(),
        "amount": total("amount"),
        "price": maximum("price"),
        "average": mean("amount"),
        "opened": first("price"),
        "closed": last("amount"),
        "cities": collect_set("city", limit=2),
        "share": derived("amount / n"),
        "ratio": total("100 // amount"),
    },
    where="amount < 90",
    name="hourly",
)
AREAS = {
    "trial": "trial",
    "area": "CASE WHEN odd THEN lower(city) ELSE substr(city, 1, 1) END",
    "part": "10 // (length(city) - length(replace(city, 'o', '')) - 1)",
}
"""The last one fails for a city with one o."""

TWO_DAYS = rollup(HOURLY, keys=("trial", "odd"), window=tumbling(hours=48), name="two_days")
ROLLUPS: Mapping[str, Rollup] = {
    "same windows": rollup(HOURLY, keys=("trial", "city"), name="cities"),
    "tumbling": TWO_DAYS,
    "hopping": rollup(HOURLY, keys=("trial",), window=hopping(6 * HOUR, every=2 * HOUR), measures=("n", "closed"), name="hops"),
    "days": rollup(HOURLY, keys=("odd", "trial"), window=calendar("day", zone="Europe/Berlin"), name="days"),
    "months": rollup(HOURLY, keys=("trial",), window=calendar("month", zone="America/Havana"), name="months"),
    "all time": rollup(HOURLY, keys=("trial",), window=all_time(), measures=("amount", "n", "share"), name="ever"),
    "of a rollup": rollup(TWO_DAYS, keys=("trial",), window=all_time(), name="ever_of_days"),
    "computed keys": rollup(HOURLY, keys=AREAS, window=tumbling(hours=4), name="areas"),
    "of computed keys": rollup(
        rollup(HOURLY, keys=AREAS, name="hourly_areas"),
        keys={"trial": "trial", "city": "area || coalesce(CAST(part AS TEXT), '-')"},
        window=calendar("day", zone="Europe/Berlin"),
        name="areas_of_areas",
    ),
}


def zone(name: str) -> ZoneInfo:
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as rules:
        return ZoneInfo.from_file(rules)


WINDOWS: Mapping[str, model.Windows] = {
    "same windows": model.tumbling(HOUR),
    "tumbling": model.tumbling(48 * HOUR),
    "days": model.calendar("day", zone("Europe/Berlin")),
    "months": model.calendar("month", zone("America/Havana")),
    "all time": model.all_time,
    "of a rollup": model.all_time,
    "computed keys": model.tumbling(4 * HOUR),
    "of computed keys": model.calendar("day", zone("Europe/Berlin")),
}


def area(of: Mapping[str, Any]) -> str | None:
    city = of["city"]
    return city and (city.lower() if of["odd"] else city[0])


def part(of: Mapping[str, Any]) -> int | None:
    city = of["city"]
    return None if city is None or city.count("o") == 1 else 10 // (city.count("o") - 1)


COMPUTED: Mapping[str, Mapping[str, Any]] = {
    "computed keys": {"area": area, "part": part},
    "of computed keys": {"city": lambda of: area(of) and f"{area(of)}{'-' if part(of) is None else part(of)}"},
}


def in_log_order(bids: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return sorted(bids, key=lambda bid: (bid["at"], bid["_partition"], bid["_offset"]))


MEASURES: Mapping[str, Any] = {
    "n": len,
    "amount": lambda bids: sum(bid["amount"] for bid in bids),
    "price": lambda bids: max(bid["price"] for bid in bids),
    "average": lambda bids: sum(bid["amount"] for bid in bids) / len(bids),
    "opened": lambda bids: in_log_order(bids)[0]["price"],
    "closed": lambda bids: in_log_order(bids)[-1]["amount"],
    "cities": lambda bids: different([bid["city"] for bid in bids if bid["city"] is not None], 2),
    "share": lambda bids: sum(bid["amount"] for bid in bids) / len(bids),
    "ratio": lambda bids: sum(100 // bid["amount"] for bid in bids),
}


def different(values: Sequence[str], limit: int) -> list[str] | None:
    return sorted(set(values)) if len(set(values)) <= limit else None


def modelled(name: str) -> Model:
    """The same rollup in the model; windows that overlap are their slices there."""
    parent = ViewModel(
        keys={"trial": lambda bid: bid["trial"], "city": lambda bid: bid["city"], "odd": lambda bid: bid["amount"] % 2 == 1},
        slices=model.tumbling(HOUR),
        measures=MEASURES,
        where=lambda bid: 0 < bid["amount"] < 90,  # 100 // 0 rejects a bid, whichever measures a rollup has
    )
    defined = ROLLUPS[name]
    slices = model.tumbling(2 * HOUR) if name == "hopping" else WINDOWS[name]
    computed = COMPUTED.get(name, {})
    kept = tuple(key for key in defined.keys if key not in computed)
    return RollupModel(parent, kept, slices, tuple(defined.measures), computed)


def bids_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
    """Two partitions with bids near a change of clocks, some of them twice."""
    around = dice.choice(CHANGES)
    known = [
        {
            "id": case * 20 + number,
            "trial": case,
            "at": around + timedelta(minutes=dice.choice((0, 1, 59, 60, -60, -1, -61, dice.randrange(-6000, 6000)))),
            "city": dice.choice(("Oslo", "Rome", "Bern", "Oslo", None)),
            "amount": dice.choice((0, 1, 2, 90, dice.randrange(100))),
            "price": Decimal(dice.randrange(-300, 300)).scaleb(-2),
        }
        for number in range(dice.randrange(1, 7))
    ]
    return [[dice.choice(known) for _ in range(dice.randrange(5))] for _ in range(2)]


@cache
def chain_of(seed: int) -> Chain:
    return split_chain(seed, CASES, bids_of, lambda _: "topic", lateness=HOUR)


@cache
def partials(seed: int) -> list[Partial]:
    return split_partials(HOURLY, chain_of(seed))


def rows(view: View, states: Partial) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = present(view, states).to_pylist()
    grouped = {
        tuple(plain(row[name]) for name in group_columns(view)): {name: plain(row[name]) for name in view.measures}
        for row in found
    }
    assert len(grouped) == len(found), "a key and window is in two rows"
    return grouped


def slices_only(view: Rollup) -> Rollup:
    """The rollup whose windows are the slices of this one's."""
    slice_ = bind(view).placement.timing.slice
    return replace(view, window=tumbling(seconds=slice_.total_seconds())) if slice_ is not None else view


@pytest.mark.parametrize("name", ROLLUPS)
def test_a_rollup_at_any_cut_is_the_models(name: str) -> None:
    """Batch at the end, batch below the cut merged with micro-batches, and the model have the same rows."""
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    chain, folds, view = chain_of(seed), partials(seed), slices_only(ROLLUPS[name])
    said = {(*key, *window): dict(row.values) for (key, window), row in model.answer(modelled(name), chain).items()}
    rolled = [Partial(roll(view, one.states), one.ranges, one.rejected) for one in folds]
    merged = merge(view, rolled)
    whole = merge(HOURLY, folds)
    at_once = Partial(roll(view, whole.states), whole.ranges, whole.rejected)
    expected = {group: {measure: plain(value) for measure, value in row.items()} for group, row in said.items()}
    assert rows(view, at_once) == expected, f"{seed=}"
    assert rows(view, merged) == expected, f"{seed=}"
    assert rows(view, merge(view, [rolled[0], merge(view, rolled[1:])])) == expected, f"{seed=}"
    below = {(*key, *window): row.values for (key, window), row in model.answer(modelled(name), chain, layer="batch").items()}
    assert rows(view, rolled[0]) == {group: {m: plain(value) for m, value in row.items()} for group, row in below.items()}
    hard = Counter(case for one in range(300) for case in model.hard_cases(_slice_of(name), _alone(chain, one)))
    print(f"{name}: {CASES} cases; of 300, {dict(hard)}")  # noqa: T201 - how many hard cases were drawn
    assert len(hard) == len(HARD), hard


HARD = ("late below the cut", "window across the cut", "several events in a window", "duplicate", "several parent rows in a row")


def _slice_of(name: str) -> RollupModel:
    found = modelled(name)
    assert isinstance(found, RollupModel)
    return found


def _alone(chain: Chain, case: int) -> Chain:
    places = [("topic", 2 * case), ("topic", 2 * case + 1)]
    ends = [{place: end[place] for place in places} for end in (chain.cut, *chain.ends)]
    return replace(chain, log={place: chain.log[place] for place in places}, cut=ends[0], ends=ends[1:])


def test_windows_that_overlap_have_the_rows_of_a_view_of_events() -> None:
    view, folds = ROLLUPS["hopping"], partials(7)
    direct = View(BIDS, keys=view.keys, window=view.window, measures=HOURLY.measures, where=HOURLY.where)
    events = table([dict(bid) for batch in chain_of(7).counted() for bid in batch], source=BIDS)
    of_events = rows(direct, partial(direct, events, Ranges.of({("topic", 0): (0, 1)})))
    of_states = rows(view, merge(view, [Partial(roll(view, one.states), one.ranges) for one in folds]))
    assert of_states == {group: {name: row[name] for name in view.measures} for group, row in of_events.items()}


def test_a_test_of_a_project_folds_a_rollup_as_its_root_does() -> None:
    """An event that the parent rejects is in no rollup of it, whichever keys and measures that has."""
    bids = [
        Bid(id=number, trial=1, at=CHANGES[0] + timedelta(minutes=30 * number), city="Oslo", amount=amount, price=Decimal(1))
        for number, amount in enumerate((0, 1, 2, 90, 5, 7))
    ]
    ever = rollup(HOURLY, keys=(), window=all_time(), measures=("n", "amount"), name="ever")
    assert [(row["n"], row["amount"]) for row in checked_answer(ever, bids)] == [(4, 15)]
    assert rejected(ever, bids) == {"expression": 1}
    assert [row["n"] for row in checked_answer(ROLLUPS["hopping"], bids)] == [1, 4, 4, 3]
