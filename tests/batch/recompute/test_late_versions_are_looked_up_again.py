"""A recompute folds events again that looked up in versions of a table which have changed since, and nothing counts twice."""

import json
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.transfer import export_archive, import_archive
from tandem.batch.verify.oracle_sample import sampled
from tandem.ledger import cut_decision
from tandem.ledger.delta.location import Location
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import adoption
from tandem.ledger.publish.batch_parts import files_with_later
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime.commits import Span, TableEnds
from tandem.ledger.stored_states import stored
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.arrow.arrays import to_ipc
from tandem.views.errors import DefinitionError
from tandem.views.kernel.kernel import merge_states
from tests.batch.release import test_apply as applying
from tests.batch.shop import Shop
from tests.samples import LONGER, cases
from tests.together.lookup_model import LookupModel

LOOKING = """
from datetime import datetime

from tandem import (
    Event, Source, Table, View, by_field, collect_set, count, count_distinct, first, histogram, last, last_k, max_by, maximum,
    mean, minimum, rollup, total, tumbling, variance,
)


class Price(Event):
    id: str
    at: datetime
    shop: str | None
    price: int | None
    closed: bool = False


class Sale(Event):
    id: str
    at: datetime
    shop: str | None
    items: int


class Tax(Event):
    id: str
    at: datetime
    shop: str | None
    items: int


sales = Source(topic="TOPIC", event=Sale, event_time="at", identity=("id",), record_filter=by_field("kind", "sale"))
prices = Source(topic="TOPIC", event=Price, event_time="at", identity=("id",), record_filter=by_field("kind", "price"))
taxes = Source(topic="TOPIC", event=Tax, event_time="at", identity=("id",), record_filter=by_field("kind", "tax"))
price_of = Table(prices, key={"shop": "shop"}, gone="closed", fields={"price": "price"})
tax_of = Table(taxes, key={"rank": "shop"}, fields={"rate": "items"})
as_of = {"p": price_of.as_of(shop="shop")}
hourly = View(
    source=sales, lookup=as_of, keys={"shop": "shop"}, window=tumbling(hours=1),
    measures={"n": count(), "cents": total("items * p.price"), "missing": count(filter="p IS NULL")},
)
daily = rollup(hourly, keys=(), window=tumbling(days=1))
ever = View(source=sales, lookup=as_of, keys={"shop": "shop"}, measures={"cents": total("items * p.price")})
latest = View(source=sales, lookup={"p": price_of.now(shop="shop")}, measures={"cents": total("items * p.price")})
priced = View(
    source=sales, lookup={"p": price_of.as_of(shop="shop", missing="reject")}, window=tumbling(hours=1), measures={"n": count()}
)
taxed = View(
    source=sales, lookup={**as_of, "t": tax_of.as_of(rank="substr('aabbcc', p.price, 1)")}, window=tumbling(hours=1),
    measures={"n": count(), "cents": total("items * t.rate"), "missing": count(filter="t IS NULL")},
)
plain = View(source=sales, window=tumbling(hours=1), measures={"n": count()})
many = View(source=sales, lookup=as_of, window=tumbling(hours=3), measures={
    "least": minimum("p.price"), "most": maximum("p.price"), "mean": mean("items * p.price"), "spread": variance("p.price"),
    "all": collect_set("p.price", limit=9), "number": count_distinct("p.price", limit=9),
    "first": first("p.price"), "last": last("p.price"),
    "some": last_k("p.price", 3), "most_of": max_by("shop", "p.price", 2), "bars": histogram("p.price", (2, 4, 8)),
})
"""
START = datetime(2026, 3, 1, tzinfo=UTC)


def record(
    kind: str, number: object, hour: float, shop: str | None, value: int | None, *, closed: bool = False
) -> dict[str, Any]:
    of = {"price": value, "closed": closed} if kind == "price" else {"items": value}
    return {"kind": kind, "id": str(number), "at": START + timedelta(hours=hour), "shop": shop, **of}


def send(shop: Shop, log: list[dict[str, Any]], *records: dict[str, Any]) -> None:
    """Records at the end of partition 0."""
    log += [{**each, "place": (len(log) + number,)} for number, each in enumerate(records)]
    shop.sell({0: [json.dumps({**each, "at": each["at"].isoformat()}).encode() for each in records]})


def run(shop: Shop, said: list[str] | None = None, request: RecomputeRequest | None = None) -> Publication:
    write_archive.run(shop.run("archive"), shop.project)
    batch = replace(shop.run("recompute"), say=(said if said is not None else []).append)
    return recompute.run(batch, shop.project, request or RecomputeRequest()).publication


def rows(shop: Shop, view: str) -> dict[Any, dict[str, Any]]:
    of = shop.project().every_view[view]
    answer = given(Reader(shop.tables).answer(view, layer="batch")).rows()
    return {(*(row[key] for key in of.keys), row["window_start"]): {name: row[name] for name in of.measures} for row in answer}


def states(shop: Shop, name: str) -> bytes:
    """What all parts of a view hold, merged and in the order of keys and windows, as an Arrow stream."""
    live = Publications(shop.tables).latest()
    assert live is not None
    view, batch = shop.project().views[name], live.views[name]
    place = Location.of(shop.tables, batch.address(shop.tables, name))
    files = files_with_later(shop.tables, place.address, batch.log_parts)
    merged = merge_states(view, [some for file, later in files for some in stored(view, place, file.path, later)])
    return to_ipc(merged.sort_by([(each, "ascending") for each in (*view.keys, "window_start")]).combine_chunks())


OF_TAX = LookupModel(lambda sale: (sale["shop"],), lambda tax: (tax["shop"],), lambda _: False)


def by_nested_loops(log: list[dict[str, Any]], view: str) -> tuple[dict[Any, dict[str, Any]], int]:
    """The rows, and how many sales are unmatched."""
    model = LookupModel(
        lambda sale: (sale["shop"],),
        lambda price: (price["shop"],),
        lambda price: price["closed"],
        how="now" if view == "latest" else "as_of",
    )
    events = list({(each["kind"], each["id"]): each for each in reversed(log)}.values())
    prices, taxes = ([each for each in events if each["kind"] == kind] for kind in ("price", "tax"))
    groups, unmatched = dict[Any, list[Any]](), 0
    for sale in (each for each in events if each["kind"] == "sale"):
        price = model.row(sale, prices)
        if view == "taxed":
            rank = "" if price is None or price["price"] is None else "aabbcc"[price["price"] - 1 : price["price"]]
            tax = OF_TAX.row({**sale, "shop": rank or None}, taxes)
            price = tax and {"price": tax["items"]}
        if view == "priced" and price is None:
            unmatched += 1
            continue
        key = (sale["shop"],) if view in ("hourly", "ever") else ()
        start = None if view in ("ever", "latest") else sale["at"].replace(minute=0).isoformat().replace("+00:00", "Z")
        groups.setdefault((*key, start), []).append((sale["items"], price))
    measures: dict[str, Any] = {
        "n": len,
        "missing": lambda sales: sum(price is None for _, price in sales),
        "cents": lambda sales: added([items * price["price"] for items, price in sales if price and price["price"] is not None]),
    }
    every = ("n", "cents", "missing")
    names = {"hourly": every, "taxed": every, "ever": ("cents",), "latest": ("cents",)}.get(view, ("n",))
    return {key: {name: measures[name](of) for name in names} for key, of in groups.items()}, unmatched


def added(values: list[int]) -> int | None:
    return sum(values) if values else None


VIEWS = ("hourly", "ever", "latest", "priced", "taxed", "plain")


def check(shop: Shop, log: list[dict[str, Any]], live: Publication) -> None:
    for view in VIEWS:
        expected, unmatched = by_nested_loops(log, view)
        assert rows(shop, view) == expected, view
        assert live.rejected.get(view, {}).get("unmatched", 0) == unmatched
    assert live.counts["sales"].events == len({each["id"] for each in log if each["kind"] == "sale"})


def test_a_late_price_is_looked_up_by_the_sales_of_its_hours_alone(shop: Shop) -> None:
    """r1 at 5 and r3 at 9 are published; r2 at 8 comes after them: sales of [8, 9) are folded again, others are not."""
    log, said = list[dict[str, Any]](), list[str]()
    shop.define(LOOKING)
    send(shop, log, record("price", "r1", 5, "a", 10), record("price", "r3", 9, "a", 30), record("price", "x", 1, "b", 7))
    send(
        shop,
        log,
        *(record("sale", hour, hour, "a", 1) for hour in (4, 5, 7.5, 8, 8.5, 8.75, 9, 11)),
        record("sale", "b", 2, "b", 1),
    )
    check(shop, log, run(shop))
    assert rows(shop, "hourly")["a", "2026-03-01T08:00:00Z"]["cents"] == 30

    send(shop, log, record("price", "r2", 8, "a", 20), record("sale", 20, 6, "a", 1), record("sale", 21, 8.25, "a", 1))
    live = run(shop, said)
    check(shop, log, live)
    assert rows(shop, "hourly")["a", "2026-03-01T08:00:00Z"] == {"n": 4, "cents": 80, "missing": 0}
    hours = START + timedelta(hours=8), START + timedelta(hours=9)
    again = {view: [part.windows for part in live.views[view].parts if part.windows] for view in VIEWS}
    assert again == {"hourly": [hours], "ever": [], "latest": [], "priced": [], "taxed": [hours], "plain": []}
    assert len(live.views["latest"].parts) == 1
    late = [line for line in said if "changed; folding again" in line]
    text = "1 rows of price_of_versions changed; folding again"
    assert f"hourly: {text} windows from 2026-03-01T08:00:00Z to 2026-03-01T09:00:00Z" in late
    assert f"ever: {text} all windows" in late
    assert not any(line.startswith("plain") for line in late)

    before = {view: rows(shop, view) for view in VIEWS}
    said.clear()
    check(shop, log, run(shop, said))
    assert not [line for line in said if "changed" in line], "nothing changed"
    send(shop, log, record("price", "r4", 8.25, "a", 40))
    check(shop, log, run(shop))  # no new sale
    assert before["plain"] == rows(shop, "plain")
    assert before["hourly"] != rows(shop, "hourly")


@pytest.mark.parametrize("seed", range(20 if LONGER else 1))
def test_incremental_runs_are_a_full_run_and_nested_loops(shop: Shop, seed: int) -> None:
    dice, log, drawn = Random(seed), list[dict[str, Any]](), Counter[str]()
    shop.define(LOOKING)
    for number in range(cases(2, bug=3, longer=5)):
        for at in range(dice.randrange(1, 6)):
            hour = dice.choice((1, 5, 8, dice.randrange(48) / 4))
            closed = dice.random() < 0.2
            send(
                shop,
                log,
                record("price", f"{number}.{at}", hour, dice.choice(("a", "b", None)), dice.randrange(9), closed=closed),
            )
        for at in range(dice.randrange(3)):
            send(shop, log, record("tax", f"{number}.{at}", dice.choice((2, 8, 20)), dice.choice("abc"), dice.randrange(5)))
        for at in range(dice.randrange(6) if number else 3):
            send(shop, log, record("sale", f"{number}.{at}", dice.randrange(48) / 4, dice.choice(("a", "b", "c", None)), at))
        if log and dice.random() < 0.5:
            send(shop, log, {name: value for name, value in dice.choice(log).items() if name != "place"})
        said: list[str] = []
        live = run(shop, said)
        drawn.update("again" for line in said if "changed; folding again windows" in line)
        check(shop, log, live)
    before = {view: rows(shop, view) for view in (*VIEWS, "daily")}
    parts = {view: states(shop, view) for view in (*VIEWS, "many", "price_of_versions", "tax_of_versions")}
    check(shop, log, run(shop, request=RecomputeRequest(mode="full")))
    assert {view: rows(shop, view) for view in (*VIEWS, "daily")} == before
    assert {view: states(shop, view) for view in parts} == parts, "byte for byte"
    print(f"{seed=}: {dict(drawn)}")  # noqa: T201 - how many hard cases were drawn


@pytest.mark.slow
def test_other_commands_look_up_in_the_published_versions(shop: Shop) -> None:
    log = list[dict[str, Any]]()
    shop.define(LOOKING)
    send(
        shop,
        log,
        record("price", 1, 1, "a", 10),
        record("price", 2, 2, "b", 20),
        *(record("sale", n, n, "a", n) for n in range(6)),
    )
    live = run(shop)
    hours = START + timedelta(hours=1), START + timedelta(hours=3)
    for request in (RecomputeRequest(views=("hourly",)), RecomputeRequest(windows=hours), RecomputeRequest(keep_cut=True)):
        check(shop, log, run(shop, request=request))
    release, project = Releases(shop.tables).load(live.release), shop.project()
    views = {name: view for name, view in project.views.items() if view.source.name == "sales"}
    live = run(shop)
    for each in sampled(shop.tables, live, release, project.sources["sales"], views, keys=9):
        assert (each.differ, bool(each.answers)) == (0, True), each.view

    changed = LOOKING.replace('gone="closed", ', "").replace('"price": "price"', '"price": "price + 1"')
    assert applying.applied(shop, changed).release == 2
    applying.promoted(shop)
    raised = [{**each, "price": each["price"] + 1} if each["kind"] == "price" else each for each in log]
    for view in VIEWS:
        assert rows(shop, view) == by_nested_loops(raised, view)[0], view


@pytest.mark.slow
def test_an_export_has_the_same_look_ups_elsewhere(shop: Shop, tmp_path: Path) -> None:
    """Another installation imports both sources, and its first recompute looks up the same versions."""
    log, folder = list[dict[str, Any]](), tmp_path / "exported"
    shop.define(LOOKING)
    send(shop, log, *(record("price", n, n, "a", 10 * n) for n in range(3)), *(record("sale", n, n, "a", n) for n in range(6)))
    check(shop, log, run(shop))
    send(shop, log, record("price", "late", 2.5, "a", 5), record("price", "end", 4, "a", 0, closed=True))
    check(shop, log, run(shop))
    export_archive.run(shop.tables, ["sales", "prices", "taxes"], folder, say=lambda _: None)
    other = replace(shop, settings=msgspec.structs.replace(shop.settings, state=str(tmp_path / "other")))
    now = lambda: datetime.now(UTC)  # noqa: E731
    adoption.live(other.tables, other.project, by="test", at=now())
    import_archive.run(other.settings, folder, ["sales", "prices", "taxes"], now=now, say=lambda _: None)
    send(other, log, record("sale", "new", 5, "a", 7))
    check(other, log, run(other))


def test_a_cut_passes_no_commit_that_knew_later_versions() -> None:
    """Orders up to 10, prices up to 5, orders up to 20 with these; archives at 20 and 0: the cut is below the second commit."""

    def at(offset: int) -> Position:
        return Position.of({("T", 0): offset})

    nothing, five = Position.of({("P", 0): 0}), Position.of({("P", 0): 5})
    spans = [
        Span(LOG_START, LOG_START, 1, "epoch"),
        Span(LOG_START, at(10), 1, "fold", looked_up={"prices": TableEnds(nothing, nothing)}),
        Span(at(10), at(20), 1, "fold", looked_up={"prices": TableEnds(nothing, five)}),
    ]

    def cut(prices: Position, end: int = 20) -> tuple[Position, bool]:
        choice = cut_decision.choose(spans, cut=LOG_START, archive_end=at(end), patience=0, tables={"prices": prices})
        return choice.cut, choice.bridge

    assert cut(nothing) == (at(10), False)
    assert cut(nothing, 30) == (at(10), False)
    assert cut(five) == (at(20), False)
    assert cut(five, 30) == (at(30), True)


def test_sources_that_look_up_in_each_others_tables_are_refused(shop: Shop) -> None:
    shop.define(LOOKING + 'sale_of = Table(sales, key={"shop": "shop"})\n' + MUTUAL)
    with pytest.raises(DefinitionError, match="which has a view that looks up in a table, too, and a table's source"):
        shop.project()


MUTUAL = 'mutual = View(source=prices, lookup={"s": sale_of.now(shop="shop")}, measures={"n": count()})\n'
