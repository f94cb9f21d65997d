"""Matches of batch, of batch and micro-batches merged, and of a rollup are those of regular expressions over strings of symbols.

The cases of a run share one log, as those of rollups do: each has partitions, a cut and micro-batches of its own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tandem import Event, Source, View, all_time, matches, rollup, tumbling
from tandem.views.kernel.kernel import Partial
from tests.samples import GENERATIONS, LONGER
from tests.together import model
from tests.together.model import Chain, Model, RollupModel, ViewModel
from tests.together.sequences import Path, chain, many, matches_by_trying, matches_of, symbol
from tests.together.split_logs import check_at_any_cut, check_hard, check_one_fold, split_chain, split_partials

CASES = 10_000 if LONGER else 1_000
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOON = datetime(2026, 3, 28, 12, tzinfo=UTC)


class Payment(Event):
    """A payment of a card."""

    id: int
    trial: int
    at: datetime
    card: str | None
    amount: int | None


PAYMENTS = Source(topic="payments", event=Payment, event_time="at", identity=("id",), name="payments")
SMALL, BIG, RISE = "amount < 3", "amount > 1", "amount > PREV(amount)"
HOURLY = View(
    source=PAYMENTS,
    keys={"trial": "trial"},
    window=tumbling(hours=1),
    measures={
        "tested": matches("small{2,} big", define={"small": SMALL, "big": BIG}),
        "soon": matches("small{2,}? any?? big", define={"small": SMALL, "big": BIG}),
        "chosen": matches("(small | small big | big{,2} any)+? big", define={"small": SMALL, "big": BIG}),
        "few": matches("small big*", define={"small": SMALL, "big": BIG}, limit=9),
        "rising": matches("any up+ down", define={"up": RISE, "down": "amount < PREV(amount, 1) OR NEXT(amount, 2) IS NULL"}),
        "of_cards": matches("big+ small", define={"small": SMALL, "big": f"{BIG} AND {RISE}"}, by="card"),
        "fallen": matches("top down+ up", define={"down": "amount < FIRST(top.amount)", "up": "amount > down.amount"}, limit=99),
        "climbed": matches(
            "up{2,}? any? low", define={"up": "amount >= FIRST(amount)", "low": "amount < LAST(up.amount)"}, limit=99
        ),
        "paid": matches("up (any up){1,2}", define={"up": "2 * amount > PREV(amount - 1, 2)"}, filter="card <> 'b'"),
    },
    name="hourly",
)
EVER = rollup(HOURLY, keys=("trial",), window=all_time(), name="ever")


def amount(rows: Sequence[Mapping[str, Any]], at: int) -> Any:
    return rows[at]["amount"] if 0 <= at < len(rows) else None


def small(rows: Any, at: int) -> bool:
    return amount(rows, at) is not None and amount(rows, at) < 3


def big(rows: Any, at: int) -> bool:
    return amount(rows, at) is not None and amount(rows, at) > 1


def above(rows: Any, at: int, before: int) -> bool:
    return amount(rows, at) is not None and amount(rows, before) is not None and amount(rows, at) > amount(rows, before)


BOTH = {"small": small, "big": big}
UPS = {"up": lambda rows, at: above(rows, at, at - 1)}
DOWNS = {"down": lambda rows, at: above(rows, at - 1, at) or amount(rows, at + 2) is None}
SOME = {"big": lambda rows, at: big(rows, at) and above(rows, at, at - 1), "small": small}


def doubled(rows: Any, at: int) -> bool:
    now, before = amount(rows, at), amount(rows, at - 2)
    return now is not None and before is not None and 2 * now > before - 1


def compared(sign: int, name: str, which: Callable[[Sequence[int]], int]) -> Callable[[Any, int, Path], bool]:
    """Whether the last row of a path is above (1), below (-1) or not below (0) a row that it has of a symbol, or any row."""

    def met(rows: Any, start: int, path: Path) -> bool:
        places = [start + at for at, each in enumerate(path) if name in ("", each)]
        now, read = amount(rows, start + len(path) - 1), amount(rows, which(places)) if places else None
        if now is None or read is None:
            return False
        return bool(now >= read if sign == 0 else sign * now > sign * read)

    return met


DOWN, ABOVE = symbol("down", compared(-1, "top", min)), symbol("up", compared(1, "down", max))
UP, LOW = symbol("up", compared(0, "", min)), symbol("low", compared(-1, "up", max))
FALLEN = chain(symbol("top"), many(DOWN, 1), ABOVE)
CLIMBED = chain(many(UP, 2, reluctant=True), many(symbol("any"), 0, 1), LOW)


def in_order(acts: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    def place(act: Mapping[str, Any]) -> tuple[Any, ...]:
        return (act["at"], GENERATIONS.index(act["_topic_id"]), act["_partition"], act["_offset"])

    return sorted(acts, key=place)


MEASURES: Mapping[str, Any] = {
    "tested": lambda acts: matches_of(in_order(acts), "small{2,} big", BOTH, 1000),
    "soon": lambda acts: matches_of(in_order(acts), "small{2,}? any?? big", BOTH, 1000),
    "chosen": lambda acts: matches_of(in_order(acts), "(small | small big | big{,2} any)+? big", BOTH, 1000),
    "few": lambda acts: matches_of(in_order(acts), "small big*", BOTH, 9),
    "rising": lambda acts: matches_of(in_order(acts), "any up+ down", UPS | DOWNS, 1000),
    "of_cards": lambda acts: matches_of(in_order(acts), "big+ small", SOME, 1000, lambda act: act["card"]),
    "fallen": lambda acts: matches_by_trying(in_order(acts), FALLEN),
    "climbed": lambda acts: matches_by_trying(in_order(acts), CLIMBED),
    "paid": lambda acts: matches_of(
        [act for act in in_order(acts) if act["card"] in ("a", "c")], "up (any up){1,2}", {"up": doubled}, 1000
    ),
}
OF_HOURS = ViewModel({"trial": lambda act: act["trial"]}, model.tumbling(HOUR), MEASURES)
MODELS: Mapping[str, Model] = {"hourly": OF_HOURS, "ever": RollupModel(OF_HOURS, ("trial",), model.all_time)}


def payments_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
    """Three partitions, the last of a newer topic, with payments minutes apart, some at one time and some twice."""
    payments = [
        {
            "id": case * 20 + number,
            "trial": case,
            "at": NOON + dice.choice((0, 0, 0, 0, 60)) * MINUTE + dice.choice((0, 2, 5, 8, 10, 11, 14, 16)) * MINUTE,
            "card": dice.choice(("a", "a", "a", "b", "c", None)),
            "amount": dice.choice((0, 1, 2, 2, 3, 4, 5, None)),
        }
        for number in range(dice.randrange(1, 20))
    ]
    return [[dice.choice(payments) for _ in range(dice.randrange(10))] for _ in range(3)]


@cache
def chain_of(seed: int) -> Chain:
    return split_chain(seed, CASES, payments_of, lambda half: GENERATIONS[half // 2])


@cache
def partials(seed: int) -> list[Partial]:
    return split_partials(HOURLY, chain_of(seed))


def hard_cases(acts: Sequence[Sequence[Mapping[str, Any]]]) -> Iterator[str]:
    """Which hard cases the payments of one window are: those below the cut, then those of each micro-batch."""
    below, after = list(acts[0]), [act for batch in acts[1:] for act in batch]
    every = in_order([*below, *after])

    def number(events: Sequence[Mapping[str, Any]], pattern: str = "small{2,} big") -> int:
        found = matches_of(in_order(events), pattern, BOTH, 1000)
        assert found is not None
        return found

    if number(every) > number(below) + number(after):
        yield "a match across the cut"
    if number(every, "small big small") < number(below, "small big small"):
        yield "a later event undoes a match"
    if matches_by_trying(every, FALLEN) != matches_by_trying(every, chain(symbol("any"), many(DOWN, 0), ABOVE)):
        yield "rows of the match are read"
    if any(small(every, at) and big(every, at) for at in range(len(every))) and number(every):
        yield "several symbols"
    if number(every, "small+ any big") != number(every, "small+? any big"):
        yield "reluctant differs"
    if number(every, "(small | small big) any") != number(every, "(small big | small) any"):
        yield "the order of alternatives matters"
    if any(act["at"] == next_["at"] and small([act], 0) != small([next_], 0) for act, next_ in pairwise(every)):
        yield "two symbols at one time"
    if below and any(act["at"] < max(each["at"] for each in below) for act in after):
        yield "late below the cut"
    if len(every) > 9:
        yield "more than the limit"


HARD = {
    *("a match across the cut", "a later event undoes a match", "several symbols", "reluctant differs"),
    *("rows of the match are read", "the order of alternatives matters", "two symbols at one time", "late below the cut"),
    "more than the limit",
}


@pytest.mark.parametrize("name", MODELS)
def test_matches_at_any_cut_are_those_of_regular_expressions(name: str) -> None:
    """Batch at the end, batch below the cut, and batch merged with micro-batches have the rows of the model."""
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    check_at_any_cut({"hourly": HOURLY, "ever": EVER}[name], partials(seed), MODELS[name], chain_of(seed), f"{seed=}")


def test_one_fold_of_matches_has_the_states_of_merged_folds() -> None:
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    check_one_fold(HOURLY, partials(seed), chain_of(seed), f"{seed=}")


def test_the_cases_of_matches_are_hard() -> None:
    check_hard(OF_HOURS, chain_of(7), CASES, hard_cases, HARD)
