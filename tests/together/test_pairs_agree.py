"""Pairs of batch, of batch and micro-batches merged, and of a rollup are those of nested loops over the events in plain Python.

The logs are those of funnels.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tandem import View, all_time, pairs, rollup, tumbling
from tandem.views.kernel.kernel import Partial
from tests.together import model
from tests.together.model import Model, RollupModel, ViewModel
from tests.together.sequences import Condition, pairs_of
from tests.together.split_logs import check_at_any_cut, check_hard, split_partials
from tests.together.test_funnels_agree import ACTS, CASES, HOUR, KINDS, MINUTE, chain_of, in_order

SEEN, CLICK, BUY = KINDS
PRICE = "CASE WHEN paid THEN CAST(id AS DECIMAL(9, 2)) - 0.25 END"
HOURLY = View(
    source=ACTS,
    keys={"trial": "trial"},
    window=tumbling(hours=1),
    measures={
        "waits": pairs("kind = 'seen'", "kind = 'click'", within=6 * MINUTE, by='"user"'),
        "first": pairs("kind = 'seen'", "kind <> 'seen'", within=8 * MINUTE, first=True),
        "both": pairs("kind <> 'buy'", "kind <> 'click'", within=HOUR, filter="paid"),
        "few": pairs("kind = 'buy'", "kind = 'click'", within=HOUR, limit=4),
        "valued": pairs(
            "kind <> 'buy'", "kind <> 'seen'", within=8 * MINUTE, by='"user"', left_value=PRICE, right_value="7 - id"
        ),
    },
    name="hourly",
)
EVER = rollup(HOURLY, keys=("trial",), window=all_time(), name="ever")


def loops(acts: Sequence[Mapping[str, Any]], sides: tuple[Condition, Condition], minutes: int, **options: Any) -> Any:
    return pairs_of(in_order(acts), sides, minutes * MINUTE, **options)


MEASURES: Mapping[str, Any] = {
    "waits": partial(loops, sides=(SEEN, CLICK), minutes=6, by=lambda act: act["user"]),
    "first": partial(loops, sides=(SEEN, lambda act: act["kind"] != "seen"), minutes=8, first=True),
    "both": lambda acts: loops(
        [act for act in acts if act["paid"]],
        (lambda act: act["kind"] != "buy", lambda act: act["kind"] != "click"),
        60,
    ),
    "few": partial(loops, sides=(BUY, CLICK), minutes=60, limit=4),
    "valued": partial(
        loops,
        sides=(lambda act: act["kind"] != "buy", lambda act: act["kind"] != "seen"),
        minutes=8,
        by=lambda act: act["user"],
        values={
            "left_total": lambda act: act["id"] - Decimal("0.25") if act["paid"] else None,
            "right_total": lambda act: 7 - act["id"],
        },
    ),
}
OF_HOURS = ViewModel({"trial": lambda act: act["trial"]}, model.tumbling(HOUR), MEASURES)
MODELS: Mapping[str, Model] = {"hourly": OF_HOURS, "ever": RollupModel(OF_HOURS, ("trial",), model.all_time)}


@cache
def partials(seed: int) -> list[Partial]:
    return split_partials(HOURLY, chain_of(seed))


@pytest.mark.parametrize("name", MODELS)
def test_pairs_at_any_cut_are_those_of_nested_loops(name: str) -> None:
    """Batch at the end, batch below the cut, and batch merged with micro-batches have the rows of the model."""
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    check_at_any_cut({"hourly": HOURLY, "ever": EVER}[name], partials(seed), MODELS[name], chain_of(seed), f"{seed=}")


def hard_cases(acts: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Which hard cases the acts of one window are: those below the cut, then those of each micro-batch."""
    below, after = list(acts[0]), [act for batch in acts[1:] for act in batch]
    every = [*below, *after]

    def number(events: Sequence[Mapping[str, Any]], sides: tuple[Condition, Condition] = (SEEN, CLICK), minutes: int = 6) -> int:
        count: int = loops(events, sides, minutes, by=lambda act: act["user"])["count"]
        return count

    if number(every) > number(below) + number(after):
        yield "a pair across the cut"
    if number(every) < number(every, minutes=60):
        yield "too late"
    if number(every) > loops(every, (SEEN, CLICK), 6, by=lambda act: act["user"], first=True)["count"]:
        yield "a second right one"
    if loops(every, (SEEN, CLICK), 6)["count"] > number(every):
        yield "of different users"
    if any(loops([one, other], (SEEN, CLICK), 0)["count"] for one in every for other in every if one["at"] == other["at"]):
        yield "two sides at one time"
    if below and any(act["at"] < max(each["at"] for each in below) for act in after):
        yield "late below the cut"
    if loops(every, (BUY, CLICK), 60, limit=4) is None:
        yield "more than the limit"


HARD = {
    *("a pair across the cut", "too late", "a second right one", "of different users", "two sides at one time"),
    *("late below the cut", "more than the limit"),
}


def test_the_cases_of_pairs_are_hard() -> None:
    check_hard(OF_HOURS, chain_of(7), CASES, hard_cases, HARD)
