"""A view of a table's current rows, of batch and of every micro-batch, is that of the rows of the model at any cut and time.

The oracle takes the table's rows from the model of tables, in plain lists, and counts these. The cases of a run share one log.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from random import Random
from typing import Any

import pytest
from hypothesis import settings

from tandem import Table, View, collect_set, count, derived, last, maximum, mean, total
from tandem.serving.read.selection import ALWAYS, of_root, select
from tandem.views.composite.rollup import rollup
from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import Partial, current, merge, present, roll
from tandem.views.verify.every_cut import checked_answer
from tandem.views.view import bind
from tandem.views.windows import all_time, tumbling
from tests.samples import EPOCH
from tests.together.split_logs import split_partials
from tests.together.test_tables_agree import CASES, HARD, KEY, OFFERS, SECOND, TABLES, Offer, alone, chain_of, modelled, place

VIEWS: Mapping[str, View] = {
    name: View(
        source=table.rows(),
        keys={"trial": "trial", "dear": "coalesce(cents, 0) > 20"},
        where="cents IS NULL OR cents <> 2",
        measures={
            "n": count(),
            "worth": total("cents"),
            "dearest": maximum("cents"),
            "mean": mean("cents"),
            "cities": collect_set("city", limit=100),
            "newest": last("coalesce(city, 'none')"),
            "share": derived("worth / n"),
        },
        name=f"of_{name.replace(' ', '_')}",
    )
    for name, table in TABLES.items()
}


def count_rows(offers: Iterable[Mapping[str, Any]]) -> dict[Any, dict[str, Any]]:
    """By key what the view answers of a table's rows."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for offer in offers:
        if offer["cents"] != 2:
            groups.setdefault((offer["trial"], (offer["cents"] or 0) > 20), []).append(offer)
    rows = {}
    for key, group in groups.items():
        cents = [offer["cents"] for offer in group if offer["cents"] is not None]
        latest = max(group, key=lambda offer: (offer["at"], *place(offer)))
        worth = sum(cents) if cents else None
        rows[key] = {
            "n": len(group),
            "worth": worth,
            "dearest": max(cents, default=None),
            "mean": sum(cents) / len(cents) if cents else None,
            "cities": sorted(offer["city"].upper() for offer in group if offer["city"] is not None),
            "newest": (latest["city"] or "none").upper() if latest["city"] else "none",
            "share": None if worth is None else worth / len(group),
        }
    return rows


def answers(view: View, merged: Partial) -> dict[Any, dict[str, Any]]:
    rows = present(view, merged).to_pylist()
    return {(row["trial"], row["dear"]): {name: row[name] for name in view.measures} for row in rows}


@pytest.mark.parametrize("name", VIEWS)
def test_rows_of_a_table_at_any_cut_and_time_are_counted_as_the_model_does(name: str) -> None:
    """Late versions below the cut, deletes, rows that come back, duplicates: what was replaced is in no answer."""
    seed = 11 if settings().derandomize else Random().getrandbits(32)
    view, table, model, chain = VIEWS[name], TABLES[name], modelled(name), chain_of(seed)
    folds, batches = split_partials(table.parent, chain), chain.counted()

    def of_model(parts: list[list[Any]], at: datetime | None) -> dict[Any, dict[str, Any]]:
        records = [offer for part in parts for offer in part if name != "filtered" or (offer["cents"] or 0) > 1]
        return count_rows(model.rows(records, at).values())

    for at in (None, *(EPOCH + seconds * SECOND for seconds in (2,))):
        chosen = of_root(view, select(view, {}, ALWAYS, at=at))
        parts = [Partial(roll(view, chosen.filter(fold.states)), fold.ranges) for fold in folds]
        assert answers(view, merge(view, [parts[0], merge(view, parts[1:])])) == of_model(batches, at), f"{seed=} {at=}"
        assert answers(view, merge(view, [parts[2], parts[0], parts[1]])) == of_model(batches, at), f"{seed=} {at=}"
        assert answers(view, parts[0]) == of_model(batches[:1], at), f"{seed=} {at=}"
    drawn = Counter(case for number in range(300) for case in {*model.hard_cases(alone(chain, number))})
    print(f"{name}: {CASES} cases; of 300, {dict(drawn)}")  # noqa: T201 - how many hard cases were drawn
    assert len(drawn) >= len(HARD) - 2 * (name == "all stay"), drawn


OF = [
    Offer(id=number, trial=1, at=EPOCH + second * SECOND, city=city, cents=cents, over=over)
    for number, (second, city, cents, over) in enumerate(
        [(5, "Oslo", 7, True), (3, "Oslo", 30, False), (5, "Rome", 4, False), (6, "Rome", 9, None), (1, "Bonn", 0, None)]
    )
]


@pytest.mark.parametrize("name", VIEWS)
def test_a_test_of_a_project_and_the_oracle_count_the_rows_of_a_table(name: str) -> None:
    rows = {row["dear"]: row["worth"] for row in checked_answer(VIEWS[name], OF)}
    assert (
        rows
        == {
            "time": {False: 9},
            "log": {False: 9, True: 30},
            "filtered": {False: 16},
            "all stay": {False: 16},
        }[name]
    )


def test_a_row_for_which_an_expression_fails_is_a_reject_of_the_answer() -> None:
    view = View(source=TABLES["time"].rows(), keys={"one": "CAST(city AS INTEGER)"}, measures={"n": count()}, name="failing")
    (fold, *_) = split_partials(TABLES["time"].parent, chain_of(11))
    whole = current(view, Partial(roll(view, fold.states), fold.ranges))
    rows = present(TABLES["time"], Partial(roll(TABLES["time"], fold.states)))
    assert whole.states.to_pylist() == [{"one": None, "window_start": None, "window_end": None, "n": rows["city"].null_count}]
    assert whole.rejected == {"expression": rows.num_rows - rows["city"].null_count}


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"window": tumbling(hours=1)}, "view 'v', window: tumbling.* is not possible over the rows that a table has now"),
        ({"keys": {"city": "town"}}, "view 'v', key 'city': 'town' names a field 'town' that TableRow does not have"),
        ({"measures": {}}, "view 'v' has no measures"),
        ({"measures": {"n": count(of=OFFERS)}}, "view 'v', measure 'n': of= names a source of several"),
    ],
)
def test_what_rows_do_not_have_is_refused(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(DefinitionError, match=sentence):
        bind(View(**{"source": TABLES["time"].rows(), "measures": {"n": count()}, "name": "v", **parts}))


def test_a_rollup_of_rows_is_refused() -> None:
    with pytest.raises(DefinitionError, match="rollup: a view of a table's rows stores no states"):
        rollup(VIEWS["time"])
    assert VIEWS["time"].window == all_time()
    assert Table(OFFERS, key=KEY, name="offer_of").rows().table.keys == KEY
