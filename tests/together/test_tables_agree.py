"""A table's rows, of batch and of every micro-batch, latest and at any time, are the model's at any cut.

As in tests/together/test_rollups_agree.py the cases of a run share one log, in which each is a value of the key `trial`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tandem import Event, Source, Table
from tandem.serving.read.selection import ALWAYS, of_root, select
from tandem.views.composite.table import VERSIONS
from tandem.views.kernel.kernel import Partial, arrange, merge, present_arranged, roll
from tandem.views.verify.every_cut import checked_answer
from tests.samples import EPOCH, GENERATIONS, LONGER
from tests.together.model import Chain, TableModel
from tests.together.split_logs import split_chain, split_partials

CASES = 10_000 if LONGER else 1_000
SECOND = timedelta(seconds=1)
HARD = ("late below the cut", "two of one time", "gone", "gone and back")


class Offer(Event):
    """A version of what a key offers."""

    id: int
    trial: int
    at: datetime
    city: str | None
    cents: int | None
    over: bool | None


OFFERS = Source(topic="offers", event=Offer, event_time="at", identity=("id",), name="offers")
KEY = {"trial": "trial", "city": "upper(city)"}
TABLES: Mapping[str, Table] = {
    "time": Table(OFFERS, key=KEY, gone="over", name="offer_of"),
    "log": Table(OFFERS, key=KEY, gone="over", order="log", name="offer_of"),
    "all stay": Table(OFFERS, key=KEY, fields={"cents": "cents", "half": "cents / 2"}, name="offer_of"),
    "filtered": Table(OFFERS, key=KEY, gone="NOT coalesce(over, true)", where="cents > 1", fields={"cents": "cents"}, name="few"),
}


def place(offer: Mapping[str, Any]) -> tuple[Any, ...]:
    return GENERATIONS.index(offer["_topic_id"]), offer["_partition"], offer["_offset"]


def modelled(name: str) -> TableModel:
    gone = {"all stay": lambda _: False, "filtered": lambda offer: offer["over"] is False}
    return TableModel(
        key=lambda offer: (offer["trial"], offer["city"] and offer["city"].upper()),
        order=place if name == "log" else lambda offer: (offer["at"], *place(offer)),
        gone=gone.get(name, lambda offer: offer["over"] is True),
    )


def offers_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
    """Two partitions of a topic and one of its next generation, with few keys and times, some offers twice."""
    offers = [
        {
            "id": case * 20 + number,
            "trial": case,
            "at": EPOCH + dice.choice((0, 1, 2, 3, dice.randrange(20))) * SECOND,
            "city": dice.choice(("Oslo", "oslo", "Rome", None)),
            "cents": dice.choice((None, 0, 1, 2, dice.randrange(100))),
            "over": dice.choice((True, False, False, None)),
        }
        for number in range(dice.randrange(1, 9))
    ]
    return [[dice.choice(offers) for _ in range(dice.randrange(5))] for _ in range(3)]


@cache
def chain_of(seed: int) -> Chain:
    return split_chain(seed, CASES, offers_of, lambda half: GENERATIONS[half // 2])


def rows(table: Table, states: Any) -> dict[Any, dict[str, Any]]:
    answer = present_arranged(table, arrange(table, states)).to_pylist()
    named = {(row["trial"], row["city"]): {name: row[name] for name in table.measures} for row in answer}
    assert len(named) == len(answer), "a key is in two rows"
    return named


@pytest.mark.parametrize("name", TABLES)
def test_a_table_at_any_cut_and_time_is_the_models(name: str) -> None:
    """Batch at the end, and batch below the cut merged with micro-batches, have the rows of the model."""
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    table, model, chain = TABLES[name], modelled(name), chain_of(seed)
    folds, counted = split_partials(table.parent, chain), chain.counted()

    def rows_of(batches: list[list[Any]], at: datetime | None) -> dict[Any, dict[str, Any]]:
        records = [offer for batch in batches for offer in batch if name != "filtered" or (offer["cents"] or 0) > 1]
        values = {"half": lambda offer: None if offer["cents"] is None else offer["cents"] / 2}
        return {
            key: {field: values.get(field, lambda offer, field=field: offer[field])(offer) for field in table.measures}
            for key, offer in model.rows(records, at).items()
        }

    for at in (None, *(EPOCH + seconds * SECOND for seconds in (-1, 0, 1, 2, 7, 30))):
        chosen = of_root(table, select(table, {}, ALWAYS, at=at))
        parts = [Partial(roll(table, chosen.filter(fold.states)), fold.ranges) for fold in folds]
        whole = roll(table, chosen.filter(merge(table.parent, folds).states))
        assert rows(table, whole) == rows_of(counted, at), f"{seed=} {at=}"
        assert rows(table, merge(table, [parts[0], merge(table, parts[1:])]).states) == rows_of(counted, at), f"{seed=} {at=}"
        assert rows(table, parts[0].states) == rows_of(counted[:1], at), f"{seed=} {at=}"
    drawn = Counter(case for number in range(300) for case in {*model.hard_cases(alone(chain, number))})
    print(f"{name}: {CASES} cases; of 300, {dict(drawn)}")  # noqa: T201 - how many hard cases were drawn
    assert len(drawn) >= len(HARD) - 2 * (name == "all stay"), drawn


def alone(chain: Chain, case: int) -> Chain:
    places = [at for at in chain.log if at[1] // 2 == case]
    ends = [{at: end[at] for at in places} for end in (chain.cut, *chain.ends)]
    return replace(chain, log={at: chain.log[at] for at in places}, cut=ends[0], ends=ends[1:])


@pytest.mark.parametrize("name", TABLES)
def test_a_test_of_a_project_and_the_oracle_have_the_rows_of_a_table(name: str) -> None:
    offers = [
        Offer(id=number, trial=1, at=EPOCH + second * SECOND, city=city, cents=number + 2, over=over)
        for number, (second, city, over) in enumerate(
            [(5, "Oslo", True), (3, "Oslo", False), (5, "Rome", True), (6, "Rome", None)]
        )
    ]
    answer = {row["city"]: row["cents"] for row in checked_answer(TABLES[name], offers)}
    assert answer == {"time": {"ROME": 5}, "log": {"OSLO": 3, "ROME": 5}, "all stay": {"OSLO": 2, "ROME": 5}}.get(
        name, {"OSLO": 2, "ROME": 5}
    )
    assert VERSIONS == "_versions"
