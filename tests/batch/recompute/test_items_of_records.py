"""Items, maps and rounded amounts through archive and recompute: the answers are those of plain Python, copies count once."""

import json
from collections import defaultdict
from decimal import ROUND_HALF_EVEN, Decimal
from random import Random
from typing import Any

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tests.batch.shop import Shop, answers

DEFINITIONS = """
from datetime import datetime
from decimal import Decimal
from typing import Annotated

import msgspec
from tandem import Event, Scale, Source, View, all_time, count, entries, total


class Item(msgspec.Struct):
    sku: str
    gross: Annotated[Decimal, Scale(2, rounding="half_even")]


class OrderLine(Event):
    order: int
    at: datetime
    labels: dict[str, str]
    items: Item


class Label(msgspec.Struct):
    key: str
    value: str


class Labelled(Event):
    order: int
    at: datetime
    labels: Label


sales = Source(topic="TOPIC", event=OrderLine, event_time="at", identity=("order",), unnest="items", max_events_per_record=3)
labelled = Source(
    topic="TOPIC", event=Labelled, event_time="at", identity=("order",), unnest=entries("labels"), max_events_per_record=3
)
per_country = View(
    source=sales,
    keys={"country": "labels['country']", "sku": "items.sku"},
    window=all_time(),
    measures={"n": count(), "gross": total("items.gross"), "rounded": total("_rounded")},
)
per_label = View(source=labelled, keys={"label": "labels.key || '=' || labels.value"}, window=all_time(), measures={"n": count()})
SOURCES = (sales, labelled)
VIEWS = (per_country, per_label)
"""


def orders(dice: Random) -> list[dict[str, Any]]:
    """Orders of no to four items, some sent again with their labels in another order."""
    found: list[dict[str, Any]] = []
    for number in range(80):
        items = [{"sku": dice.choice("ab"), "gross": dice.randrange(1, 9999) / 8} for _ in range(dice.randrange(5))]
        labels = {name: dice.choice("xy") for name in dice.sample(["country", "shop", "way"], dice.randrange(4))}
        order = {"order": number, "at": "2026-03-01T00:00:00Z", "labels": labels, "items": items}
        found.append(order)
        if dice.random() < 0.3:
            found.append(order | {"labels": dict(reversed(labels.items()))})
    return found


@pytest.mark.parametrize("raw", [False, True])
def test_items_and_labels_count_once(shop: Shop, raw: bool) -> None:  # noqa: FBT001  a parameter
    shop.define(DEFINITIONS)
    sent = orders(Random(11))
    shop.sell({0: [json.dumps(order).encode() for order in sent], 1: []})
    write_archive.run(shop.run("archive"), shop.project)
    live = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", raw=raw)).publication

    once = {order["order"]: order for order in reversed(sent)}
    countries: dict[Any, list[Decimal]] = defaultdict(list)
    rounded: dict[Any, int] = defaultdict(int)
    labels: dict[str, int] = defaultdict(int)
    for order in once.values():
        for item in order["items"] if 1 <= len(order["items"]) <= 3 else []:
            exact = Decimal(repr(item["gross"]))
            cents = exact.quantize(Decimal("0.01"), ROUND_HALF_EVEN)
            countries[order["labels"].get("country"), item["sku"]].append(cents)
            rounded[order["labels"].get("country"), item["sku"]] += cents != exact
        for key, value in order["labels"].items():
            labels[f"{key}={value}"] += 1
    found = {
        (row["country"], row["sku"]): (row["n"], Decimal(row["gross"]), row["rounded"])
        for row in answers(shop, live, "per_country")
    }
    assert found == {key: (len(cents), sum(cents), rounded[key]) for key, cents in countries.items()}
    assert {row["label"]: row["n"] for row in answers(shop, live, "per_label")} == labels

    every = [order for order in sent if 1 <= len(order["items"]) <= 3]
    counts = live.counts["sales"]
    assert counts.events + counts.duplicates == sum(len(order["items"]) for order in every)
    assert (counts.conflicts, counts.records) == (0, len(every))
    assert counts.quarantined == {"length": len(sent) - len(every)}
    assert live.counts["labelled"].conflicts == 0, "entries are told apart by the order of their keys"
    assert counts.rounded > sum(rounded.values()) > 0, "copies are rounded, too"
