"""A view over two sources of one topic through commands: archive, recompute, a release beside the live one, its promotion."""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.cli.batch import verify
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tests.batch.erase.test_erased_records_are_gone import selecting
from tests.batch.release import test_apply as applying
from tests.batch.shop import Shop

TWO = """
from datetime import datetime

from tandem import Event, Source, View, by_field, count, derived, total, tumbling


class Sale(Event):
    id: str
    at: datetime
    shop: str
    cents: int


class Return(Event):
    id: str
    at: datetime
    shop: str


sales = Source(topic="TOPIC", event=Sale, event_time="at", identity=("id",), record_filter=by_field("kind", "sale"))
returns = Source(topic="TOPIC", event=Return, event_time="at", identity=("id",), record_filter=by_field("kind", "return"))
hourly = View(
    source=(sales, returns),
    keys={"shop": "shop"},
    window=tumbling(hours=1),
    measures={
        "sold": count(of=sales), "returned": count(of=returns), "cents": total("cents", of=sales),
        "share": derived("returned / sold"),
    },
)
SOURCES = (sales, returns)
VIEWS = (hourly,)
"""
START = datetime(2026, 3, 1, tzinfo=UTC)


def records(seed: int, count: int) -> dict[int, list[bytes | None]]:
    """Sales and returns of two partitions, some of them twice."""
    dice, log = Random(seed), dict[int, list[bytes | None]]({0: [], 1: []})
    for number in range(count):
        record: dict[str, Any] = {
            "kind": dice.choice(("sale", "sale", "return")),
            "id": f"{seed}-{number}",
            "at": (START + timedelta(minutes=dice.randrange(600))).isoformat(),
            "shop": dice.choice(("Oslo", "Rome")),
        }
        record |= {"cents": dice.randrange(100)} if record["kind"] == "sale" else {}
        for _ in range(dice.choice((1, 1, 1, 2))):
            log[dice.randrange(2)].append(json.dumps(record).encode())
    return log


def counted(*logs: dict[int, list[bytes | None]]) -> dict[Any, tuple[int, int, int | None]]:
    """Sold, returned and cents by shop and hour, of plain Python."""
    values = {json.loads(value or b"")["id"]: json.loads(value or b"") for log in logs for part in log.values() for value in part}
    rows: dict[Any, tuple[int, int, int | None]] = {}
    for each in values.values():
        hour = datetime.fromisoformat(each["at"]).replace(minute=0)
        sold, returned, cents = rows.get((each["shop"], hour), (0, 0, None))
        sale = each["kind"] == "sale"
        rows[each["shop"], hour] = sold + sale, returned + (not sale), (cents or 0) + each["cents"] if sale else cents
    return rows


def rows_of(shop: Shop) -> dict[Any, tuple[int, int, int | None]]:
    found = given(Reader(shop.tables).answer("hourly", layer="batch")).table.to_pylist()
    return {(row["shop"], row["window_start"]): (row["sold"], row["returned"], row["cents"]) for row in found}


def test_commands_fold_publish_and_promote_both_sources(shop: Shop) -> None:
    shop.define(TWO)
    first, second = records(1, 60), records(2, 40)
    for log in (first, second):
        shop.sell(log)
        write_archive.run(shop.run("archive"), shop.project)
        done = recompute.run(shop.run("recompute"), shop.project)
        assert {*done.publication.views} == {"hourly__sales", "hourly__returns"}
        assert rows_of(shop) == counted(*((first,) if log is first else (first, second)))
    again = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", views=("hourly",))).publication
    assert {name: len(view.parts) for name, view in again.views.items()} == {"hourly__sales": 1, "hourly__returns": 1}
    changed = applying.applied(shop, TWO.replace('total("cents", of=sales)', 'total("cents + 1", of=sales)'))
    assert changed.diff is not None
    assert {name: view["status"] for name, view in changed.diff.views.items()} == {
        "hourly__sales": "changed",
        "hourly__returns": "unchanged",
    }
    applying.promoted(shop)
    expected = {
        key: (sold, returned, None if cents is None else cents + sold)
        for key, (sold, returned, cents) in counted(first, second).items()
    }
    assert rows_of(shop) == expected


def test_an_erasure_of_one_source_leaves_the_events_of_the_other(shop: Shop) -> None:
    shop.define(TWO)
    log = records(3, 60)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    recompute.run(shop.run("recompute"), shop.project)
    (done,) = shop.forget(selecting("shop = 'Rome'"))
    assert done.publication.views.keys() == {"hourly__sales", "hourly__returns"}

    left = {
        key: (0, returned, None) if key[0] == "Rome" else (sold, returned, cents)
        for key, (sold, returned, cents) in counted(log).items()
        if key[0] == "Oslo" or returned
    }
    assert rows_of(shop) == left
    recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=True))
    assert rows_of(shop) == left


def test_to_verify_the_whole_is_to_verify_both_parts(shop: Shop) -> None:
    shop.define(TWO)
    assert {*verify._chosen(shop.project(), ["hourly"])} == {"hourly__sales", "hourly__returns"}
