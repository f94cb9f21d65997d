"""A view over several sources, whose parts stand at cuts of their own, has the model's rows at any cuts, and so have its rollups.

The cases of a run share the logs, as those of rollups do: each is a value of the key `trial`.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tandem import (
    Event,
    Source,
    View,
    all_time,
    calendar,
    collect_set,
    count,
    derived,
    first,
    maximum,
    mean,
    rollup,
    session,
    total,
    tumbling,
)
from tandem.testing import answer, rejected
from tandem.views.composite.together import parts
from tandem.views.errors import DefinitionError
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.kernel.kernel import Partial, merge, present, roll
from tandem.views.lookup.file_table import FileTable
from tandem.views.view import View as AnyView
from tandem.views.view import bind, group_columns
from tests.agreement.oracle import plain
from tests.samples import LONGER
from tests.together import model
from tests.together.model import Chain, Model, RollupModel, ViewModel
from tests.together.split_logs import split_chain, split_partials

CASES = 10_000 if LONGER else 1_000
HOUR = timedelta(hours=1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


class Seen(Event):
    """An advertisement was shown."""

    id: int
    trial: int
    at: datetime
    ad: str | None
    cost: int


class Clicked(Event):
    """An advertisement was clicked: another type, with fields of the same names."""

    user: str | None
    cost: int
    ad: str | None
    at: datetime
    trial: int
    id: int


SEEN = Source(topic="seen", event=Seen, event_time="at", identity=("id",), name="seen")
CLICKS = Source(topic="clicks", event=Clicked, event_time="at", identity=("id",), name="clicks")
HOURLY = View(
    source=(SEEN, CLICKS),
    keys={"trial": "trial", "ad": "ad"},
    window=tumbling(hours=1),
    measures={
        "clicked": count(of=CLICKS),
        "shown": count(of=SEEN),
        "events": count(),
        "cheap": count(filter="cost < 3", of=SEEN),
        "paid": total("cost"),
        "cost": total("cost", of=SEEN),
        "dearest": maximum("cost", of=CLICKS),
        "average": mean("cost", of=CLICKS, filter="cost > 1"),
        "users": collect_set("user", limit=2, of=CLICKS),
        "opened": first("cost", of=CLICKS),
        "rate": derived("clicked / shown"),
        "ratio": total("12 // cost", of=CLICKS),
    },
    where="cost < 9",
    name="hourly",
)
DAYS = rollup(HOURLY, keys=("trial",), window=calendar("day", zone="UTC"), name="days")
VIEWS: Mapping[str, AnyView] = {
    "hours": HOURLY,
    "days": DAYS,
    "all time of days": rollup(DAYS, window=all_time(), measures=("clicked", "shown", "rate", "average"), name="ever"),
    "of one source": rollup(HOURLY, keys=("ad", "trial"), measures=("users", "dearest"), name="users"),
}


def of(source: str, measure: Callable[[list[Any]], Any], *, none: Any = None) -> Callable[[list[Any]], Any]:
    def measure_some(records: list[Any]) -> Any:
        chosen = [record for record in records if record["_topic_id"] == source]
        return measure(chosen) if chosen else none

    return measure_some


def in_log_order(records: list[Any]) -> list[Any]:
    return sorted(records, key=lambda record: (record["at"], record["_partition"], record["_offset"]))


def average(records: list[Any]) -> float | None:
    costs = [record["cost"] for record in records if record["cost"] > 1]
    return sum(costs) / len(costs) if costs else None


def users(records: list[Any]) -> list[str] | None:
    different = {record["user"] for record in records if record["user"] is not None}
    return sorted(different) if len(different) <= 2 else None


def rate(records: list[Any]) -> float | None:
    clicked, shown = (sum(record["_topic_id"] == name for record in records) for name in ("anew", "topic"))
    return clicked / shown if shown else None


MEASURES: Mapping[str, Any] = {
    "clicked": of("anew", len, none=0),
    "shown": of("topic", len, none=0),
    "events": len,
    "cheap": of("topic", lambda records: sum(record["cost"] < 3 for record in records), none=0),
    "paid": lambda records: sum(record["cost"] for record in records),
    "cost": of("topic", lambda records: sum(record["cost"] for record in records)),
    "dearest": of("anew", lambda records: max(record["cost"] for record in records)),
    "average": of("anew", average),
    "users": of("anew", users, none=[]),
    "opened": of("anew", lambda records: in_log_order(records)[0]["cost"]),
    "rate": rate,
    "ratio": of("anew", lambda records: sum(12 // record["cost"] for record in records)),
}
PARENT = ViewModel(
    keys={"trial": lambda record: record["trial"], "ad": lambda record: record["ad"]},
    slices=model.tumbling(HOUR),
    measures=MEASURES,
    # 12 // 0 rejects a click, in every measure
    where=lambda record: record["cost"] < 9 and not (record["_topic_id"] == "anew" and record["cost"] == 0),
)
MODELS: Mapping[str, Model] = {
    "hours": PARENT,
    "days": RollupModel(PARENT, ("trial",), model.tumbling(24 * HOUR), tuple(DAYS.measures)),
    "all time of days": RollupModel(PARENT, ("trial",), model.all_time, ("clicked", "shown", "rate", "average")),
    "of one source": RollupModel(PARENT, ("ad", "trial"), model.tumbling(HOUR), ("users", "dearest")),
}


def generator(source: str) -> Callable[[Random, int], list[list[dict[str, Any]]]]:
    def rows_of(dice: Random, case: int) -> list[list[dict[str, Any]]]:
        clicks = source == "clicks"
        events = [
            {
                "id": case * 20 + number,
                "trial": case,
                "at": NOON + timedelta(minutes=dice.choice((0, 1, 59, 60, -1, dice.randrange(-2000, 2000)))),
                "ad": dice.choice(("A", "B", "A", None)),
                "cost": dice.choice((0, 1, 9, dice.randrange(1, 9))),
                **({"user": dice.choice(("Ann", "Bea", "Cy", None))} if clicks else {}),
            }
            for number in range(dice.randrange(1, 6))
        ]
        none = dice.randrange(8) == 0
        return [[] if none else [dice.choice(events) for _ in range(dice.randrange(5))] for _ in range(2)]

    return rows_of


@cache
def chains(seed: int) -> tuple[Chain, ...]:
    """The chain of each source, with cuts of its own."""
    return tuple(
        split_chain(seed + number, CASES, generator(name), lambda _, topic=topic: topic)
        for number, (name, topic) in enumerate((("seen", "topic"), ("clicks", "anew")))
    )


@cache
def partials(seed: int) -> list[list[Partial]]:
    """By source, the partials of its part of the view: below the cut, then of each micro-batch."""
    return [split_partials(part, chain) for part, chain in zip(parts(HOURLY), chains(seed), strict=True)]


def rows(view: AnyView, states: Partial) -> dict[tuple[Any, ...], dict[str, Any]]:
    found = present(view, states).to_pylist()
    grouped = {
        tuple(plain(row[name]) for name in group_columns(view)): {name: plain(row[name]) for name in view.measures}
        for row in found
    }
    assert len(grouped) == len(found), "a key and window is in two rows"
    return grouped


def model_rows(name: str, seed: int, layer: model.Layer = "merged") -> dict[tuple[Any, ...], dict[str, Any]]:
    found = model.answer(MODELS[name], *chains(seed), layer=layer)
    return {(*key, *window): {m: plain(value) for m, value in row.values.items()} for (key, window), row in found.items()}


def roll_up(view: AnyView, found: Partial) -> Partial:
    return replace(found, states=roll(view, found.states))


HARD = (
    "a row of both sources",
    "a row of one source",
    "a source without records",
    "a window across one cut and not the other",
    "below the cut of one source and above that of the other",
    "duplicate",
    "late below the cut of its source",
)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_over_sources_at_any_cuts_is_the_models(name: str) -> None:
    """Batch at the ends, batch below each cut merged with micro-batches in any order, and the model have the same rows."""
    seed = 7 if settings().derandomize else Random().getrandbits(32)
    folds, view = partials(seed), VIEWS[name]
    pieces = [roll_up(view, each) for of_source in folds for each in of_source]
    expected = model_rows(name, seed)
    assert rows(view, merge(view, pieces)) == expected, f"{seed=}"
    assert rows(view, merge(view, [merge(view, pieces[::2]), *reversed(pieces[1::2])])) == expected, f"{seed=}"
    whole = [merge(part, each) for part, each in zip(parts(HOURLY), folds, strict=True)]
    assert rows(view, merge(view, [roll_up(view, each) for each in whole])) == expected, f"{seed=}"
    below = merge(view, [roll_up(view, each[0]) for each in folds])
    assert rows(view, below) == model_rows(name, seed, "batch"), f"{seed=}"
    after = merge(view, [roll_up(view, each) for of_source in folds for each in of_source[1:]])
    assert rows(view, after) == model_rows(name, seed, "speed"), f"{seed=}"
    hard = Counter(
        case for case_number in range(1_000) for case in set(model.hard_cases_of_sources(MODELS[name], alone(seed, case_number)))
    )
    print(f"{name}: {CASES} cases; of 1 000, {dict(hard)}")  # noqa: T201 - how many hard cases were drawn
    assert {*hard} == {*HARD}, hard


def alone(seed: int, case: int) -> list[Chain]:
    """The chains of one case."""
    of_case = []
    for chain in chains(seed):
        places = [place for place in chain.log if place[1] in (2 * case, 2 * case + 1)]
        ends = [{place: end[place] for place in places} for end in (chain.cut, *chain.ends)]
        of_case.append(replace(chain, log={place: chain.log[place] for place in places}, cut=ends[0], ends=ends[1:]))
    return of_case


def test_a_test_of_a_project_gives_events_of_all_sources() -> None:
    shown = [Seen(id=number, trial=1, at=NOON + number * HOUR, ad="A", cost=number) for number in range(3)]
    clicked = [Clicked(id=number, trial=1, at=NOON + number * HOUR, ad="A", cost=1, user="Ann") for number in (0, 0, 2)]
    found = answer(HOURLY, [*clicked, *shown])
    assert [(row["clicked"], row["shown"], row["events"], row["rate"]) for row in found] == [
        (1, 1, 2, 1),
        (0, 1, 1, 0),
        (1, 1, 2, 1),
    ]
    assert [row["window_state"] for row in found] == ["final", "on_time", "open"]
    assert [row["window_state"] for row in answer(HOURLY, shown)] == ["open"] * 3, "no click says how far clicks have come"
    assert rejected(HOURLY, [Clicked(id=9, trial=1, at=NOON, ad="A", cost=0, user=None)]) == {"expression": 1}


def test_events_of_all_sources_look_up_in_one_table() -> None:
    kinds = FileTable("ads.csv", "code", b"code,kind\nA,banner\n").now(code="ad")
    of_kind = replace(HOURLY, lookup={"a": kinds}, keys={"kind": "a.kind"})
    shown = [Seen(id=number, trial=1, at=NOON, ad=ad, cost=1) for number, ad in enumerate("AB")]
    rows_of_kinds = answer(of_kind, [*shown, Clicked(id=3, trial=1, at=NOON, ad="A", cost=1, user="Ann")])
    assert [(row["kind"], row["clicked"], row["shown"]) for row in rows_of_kinds] == [("banner", 1, 1), (None, 0, 1)]
    others = FileTable("ads.csv", "code", b"code,kind\nA,video\n").now(code="ad")
    assert fingerprint(of_kind) != fingerprint(replace(of_kind, lookup={"a": others}))


def other(**fields: Any) -> Source:
    return replace(CLICKS, **fields)


COUNTED = {"n": count()}
BAD: Mapping[str, tuple[Callable[[], View], str]] = {
    "one source": (lambda: View(source=(SEEN,), measures=COUNTED), "a tuple of 1; write source=seen"),
    "twice": (lambda: View(source=(SEEN, CLICKS, SEEN), measures=COUNTED), "'seen' occurs twice"),
    "one name": (lambda: View(source=(SEEN, other(name="seen")), measures=COUNTED), "'seen' occurs twice"),
    "not a source": (lambda: View(source=(SEEN, "clicks"), measures=COUNTED), "'clicks' is not a Source"),  # type: ignore[arg-type]
    "session": (
        lambda: View(source=(SEEN, CLICKS), window=session(minutes=5), measures=COUNTED),
        "not possible over several sources, because it follows the events of one log",
    ),
    "keep": (lambda: replace(HOURLY, keep=HOUR), "hourly', keep: a view over several sources keeps all its windows"),
    "field of one source": (
        lambda: replace(HOURLY, measures={"n": total("length(user)")}),
        "view 'hourly', in source 'seen', measure 'n'",
    ),
    "filter of one source": (lambda: replace(HOURLY, where="user = 'Ann'"), "view 'hourly', in source 'seen', where"),
    "key of one source": (lambda: replace(HOURLY, keys={"user": "user || 'x'"}), "view 'hourly', in source 'seen', key 'user'"),
    "no measure": (lambda: replace(HOURLY, measures={"n": count(of=SEEN)}), "no measure reads source 'clicks'; add one"),
    "log order": (lambda: replace(HOURLY, measures={"n": first("cost")}), "follows the order of one log; name its source"),
    "another source": (
        lambda: replace(HOURLY, measures={"n": count(of=other(name="else"))}),
        "of=else is not a source of the view",
    ),
    "of in a view of one": (lambda: View(source=SEEN, measures={"n": count(of=SEEN)}), "has of=seen, which is for a view over"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_impossible_view_names_what_is_valid(name: str) -> None:
    make, sentence = BAD[name]
    with pytest.raises(DefinitionError) as refused:
        bind(make())
    assert sentence in str(refused.value)


def test_a_key_has_one_type_in_all_sources() -> None:
    class Sold(Event):
        """A sale, whose advertisement is a number."""

        at: datetime
        ad: int

    sold = Source(topic="sold", event=Sold, event_time="at", name="sold")
    with pytest.raises(
        DefinitionError, match="key 'ad': 'ad' is of type VARCHAR in source 'seen' and of type BIGINT in source 'sold'"
    ):
        bind(View(source=(SEEN, sold), keys={"ad": "ad"}, measures=COUNTED, name="sales"))
    with pytest.raises(DefinitionError, match=r"measure 'm': .* is of other types in source 'sold' than in source 'seen'"):
        bind(View(source=(SEEN, sold), measures={"m": maximum("ad")}, name="sales"))
