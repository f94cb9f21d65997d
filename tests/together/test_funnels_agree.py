"""Funnels of batch, of batch and micro-batches merged, and of a rollup are those of every choice of events tried in plain Python.

The cases of a run share one log, as those of rollups do: each has partitions, a cut and micro-batches of its own.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tandem import Event, Source, View, all_time, funnel, rollup, tumbling
from tandem.views.kernel.kernel import Partial
from tests.samples import GENERATIONS, LONGER
from tests.together import model
from tests.together.model import Chain, Model, RollupModel, ViewModel
from tests.together.sequences import funnel_of, furthest
from tests.together.split_logs import check_at_any_cut, check_hard, check_one_fold, split_chain, split_partials

CASES = 10_000 if LONGER else 1_000
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)
STEPS = ("kind = 'seen'", "kind = 'click'", "kind = 'buy'")


class Act(Event):
    """What a user did."""

    id: int
    trial: int
    at: datetime
    user: str | None
    kind: str
    paid: bool | None


ACTS = Source(topic="acts", event=Act, event_time="at", identity=("id",), name="acts")
HOURLY = View(
    source=ACTS,
    keys={"trial": "trial"},
    window=tumbling(hours=1),
    measures={
        "bought": funnel(STEPS, within=10 * MINUTE, by='"user"'),
        "few": funnel(STEPS, within=20 * MINUTE, by='"user"', limit=4),
        "overlapping": funnel(("kind <> 'buy'", "paid", "kind <> 'seen'"), within=5 * MINUTE, by='"user"'),
        "paying": funnel(("kind = 'seen'", "kind <> 'seen'"), within=HOUR, by="coalesce(\"user\", '')", filter="paid"),
    },
    name="hourly",
)
EVER = rollup(HOURLY, keys=("trial",), window=all_time(), name="ever")


def purchases(events: Sequence[Mapping[str, Any]], minutes: int, limit: int) -> list[int] | None:
    return funnel_of(events, KINDS, minutes * MINUTE, lambda act: act["user"], limit)


KINDS = [lambda act, kind=kind: act["kind"] == kind for kind in ("seen", "click", "buy")]
OVERLAPPING = [lambda act: act["kind"] != "buy", lambda act: act["paid"], lambda act: act["kind"] != "seen"]


def in_order(acts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def place(act: Mapping[str, Any]) -> tuple[Any, ...]:
        return (act["at"], GENERATIONS.index(act["_topic_id"]), act["_partition"], act["_offset"])

    return sorted(acts, key=place)


MEASURES: Mapping[str, Any] = {
    "bought": lambda acts: purchases(in_order(acts), 10, 10_000),
    "few": lambda acts: purchases(in_order(acts), 20, 4),
    "overlapping": lambda acts: funnel_of(in_order(acts), OVERLAPPING, 5 * MINUTE, lambda act: act["user"], 10_000),
    "paying": lambda acts: funnel_of(
        [act for act in in_order(acts) if act["paid"]],
        [KINDS[0], lambda act: act["kind"] != "seen"],
        HOUR,
        lambda act: act["user"] or "",
        10_000,
    ),
}
OF_HOURS = ViewModel({"trial": lambda act: act["trial"]}, model.tumbling(HOUR), MEASURES)
MODELS: Mapping[str, Model] = {"hourly": OF_HOURS, "ever": RollupModel(OF_HOURS, ("trial",), model.all_time)}


def acts_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
    """Three partitions, the last of a newer topic, with acts minutes apart, some at one time and some twice."""
    acts = [
        {
            "id": case * 20 + number,
            "trial": case,
            "at": NOON + dice.choice((0, 0, 0, 0, 60)) * MINUTE + dice.choice((0, 2, 5, 8, 10, 11, 14, 16)) * MINUTE,
            "user": dice.choice(("ann", "ann", "ann", "bob", None)),
            "kind": dice.choice(("seen", "seen", "seen", "click", "click", "buy", "buy", "left")),
            "paid": dice.choice((True, False, None)),
        }
        for number in range(dice.randrange(1, 14))
    ]
    return [[dice.choice(acts) for _ in range(dice.randrange(8))] for _ in range(3)]


@cache
def chain_of(seed: int) -> Chain:
    return split_chain(seed, CASES, acts_of, lambda half: GENERATIONS[half // 2])


@cache
def partials(seed: int) -> list[Partial]:
    return split_partials(HOURLY, chain_of(seed))


def hard_cases(acts: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Which hard cases the acts of one window are: those below the cut, then those of each micro-batch."""
    below, *after = acts
    every = in_order([act for batch in acts for act in batch])
    for user in ("ann", "bob"):
        whose = [act for act in every if act["user"] == user]
        old = [act for act in whose if act in below]
        reach = furthest(whose, KINDS, 10 * MINUTE)
        if reach > max(furthest(old, KINDS, 10 * MINUTE), furthest([a for a in whose if a not in below], KINDS, 10 * MINUTE)):
            yield "an attempt across the cut"
        first = next((number for number, act in enumerate(whose) if act["kind"] == "seen"), None)
        if first is not None and furthest(whose[first + 1 :], KINDS, 10 * MINUTE) > _from(whose, first):
            yield "a later attempt goes further"
        if reach < furthest(whose, KINDS, HOUR):
            yield "too late"
        if any(act["at"] == after["at"] and act["kind"] != after["kind"] for act, after in pairwise(whose)):
            yield "two steps at one time"
    if below and any(act["at"] < max(each["at"] for each in below) for batch in after for act in batch):
        yield "late below the cut"
    if sum(act["user"] is not None and act["kind"] != "left" for act in every) > 4:
        yield "more than the limit"


def _from(whose: Sequence[Mapping[str, Any]], first: int) -> int:
    """How far the attempt goes that begins there."""
    rest = [act for act in whose[first + 1 :] if act["at"] <= whose[first]["at"] + 10 * MINUTE]
    return 1 + furthest(rest, KINDS[1:], HOUR)


HARD = {
    *("an attempt across the cut", "a later attempt goes further", "too late", "two steps at one time"),
    *("late below the cut", "more than the limit"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_funnel_at_any_cut_is_every_choice_tried(name: str) -> None:
    """Batch at the end, batch below the cut, and batch merged with micro-batches have the rows of the model."""
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    check_at_any_cut({"hourly": HOURLY, "ever": EVER}[name], partials(seed), MODELS[name], chain_of(seed), f"{seed=}")


def test_one_fold_of_funnels_has_the_states_of_merged_folds() -> None:
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    check_one_fold(HOURLY, partials(seed), chain_of(seed), f"{seed=}")


def test_the_cases_are_hard() -> None:
    check_hard(OF_HOURS, chain_of(7), CASES, hard_cases, HARD)
