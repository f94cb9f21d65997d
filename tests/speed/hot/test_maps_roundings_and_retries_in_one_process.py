"""Maps, rounded amounts and retries of any time count alike in hot tail, speed layer, archive and an imported archive.

The expected answers are plain Python's.
"""

import json
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tandem.batch.transfer import export_archive, import_archive
from tandem.cli.records.redecode import decode_again
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.speed.hot.follow import HotTailEnded
from tests import one_process
from tests.speed.hot.beside import Beside, beside, layer
from tests.speed.sales import START
from tests.speed.test_in_one_process import Layer

__all__ = ["beside", "layer"]

DEFINITIONS = """
from datetime import datetime
from decimal import Decimal
from typing import Annotated
from tandem import Event, Scale, Source, View, count, total, tumbling

Cents = Annotated[Decimal, Scale(2, rounding="half_even")]

class Sale(Event):
    id: int
    at: datetime
    price: Cents
    fees: dict[str, Cents | None]
    tags: dict[str, list[str]]

sales = Source(topic="{topic}", event=Sale, event_time="at", identity=("id",), identity_spans="any_time")
per_minute = View(
    source=sales,
    keys={{"tag": "map_keys(tags)[1]"}},
    window=tumbling(minutes=1),
    measures={{"n": count(), "price": total("price"), "fee": total("fees['ä']"), "rounded": total("_rounded")}},
)
per_fees = View(source=sales, keys={{"fees": "cardinality(fees)"}}, measures={{"n": count()}})
SOURCES = (sales,)
VIEWS = (per_minute, per_fees)
"""
BAD = (b"{}", b'{"id":1,"at":"2026-11-01T00:00:00Z","price":1,"fees":{"a":1,"a":2},"tags":{}}')
FEES = ("b", "ä", "a")


def price(number: int) -> Fraction:
    return Fraction(number * 25 - 300, 1000)


def sale(number: int, *, again: int = 0) -> bytes:
    """A sale, or its retry: later, with its entries in another order."""
    at = START + timedelta(seconds=number * 7 + again * 61)
    fees: dict[str, float | None] = {name: float(price(number)) for name in FEES[: number % 4]}
    if number % 5 == 0:
        fees["none"] = None
    pairs = [*fees.items()]
    random.Random(again).shuffle(pairs)
    tags = {"z": ["ö"], "k" if number % 3 else "l": []} if number % 2 else {}
    more = {"fees": dict(pairs), "tags": dict(reversed(tags.items()) if again else tags)}
    return json.dumps({"id": number, "at": at.isoformat(), "price": float(price(number)), **more}).encode()


def contents(values: list[bytes], *names: str) -> set[str]:
    """The different sales of a log, or their different fields of these names; maps are equal in any order."""
    sales = [json.loads(value) for value in values if value not in BAD]
    return {json.dumps({name: one[name] for name in names or one}, sort_keys=True) for one in sales}


def half_even(number: Fraction) -> Fraction:
    return Fraction(round(number * 100), 100)


def expected(values: list[bytes]) -> dict[tuple[str, str | None], tuple[int, Fraction, Fraction | None, int]]:
    """By minute and first tag: the sales, of each id the first that the log has."""
    first: dict[int, dict[str, Any]] = {}
    for one in (json.loads(value) for value in values if value not in BAD):
        first.setdefault(one["id"], one)
    groups: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for one in first.values():
        minute = datetime.fromisoformat(one["at"]).strftime("%Y-%m-%dT%H:%M:00Z")
        groups.setdefault((minute, min(one["tags"], default=None)), []).append(one)
    return {key: sums(several) for key, several in groups.items()}


def sums(several: list[dict[str, Any]]) -> tuple[int, Fraction, Fraction | None, int]:
    fees = [half_even(Fraction(str(one["fees"]["ä"]))) for one in several if "ä" in one["fees"]]
    amounts = [Fraction(str(each)) for one in several for each in (one["price"], *one["fees"].values()) if each is not None]
    prices = [half_even(Fraction(str(one["price"]))) for one in several]
    rounded = sum(half_even(amount) != amount for amount in amounts)
    return len(several), Fraction(sum(prices)), Fraction(sum(fees)) if fees else None, rounded


def totals_of(rows: list[dict[str, Any]]) -> dict[tuple[str, str | None], tuple[int, Fraction, Fraction | None, int]]:
    return {
        (row["window_start"], row["tag"]): (
            row["n"],
            Fraction(row["price"]),
            None if row["fee"] is None else Fraction(row["fee"]),
            row["rounded"],
        )
        for row in rows
    }


def answers_of(
    tables: Tables, layer_name: Any = None
) -> dict[tuple[str, str | None], tuple[int, Fraction, Fraction | None, int]]:
    reader = Reader(tables)
    reader.refresh()
    return totals_of(given(reader.answer("per_minute", **({"layer": layer_name} if layer_name else {}))).rows())


def below(beside: Beside) -> list[bytes]:
    """The values of the log below the position of answers."""
    topic, position = beside.layer.topic, beside.position
    return [
        row["value"]
        for number, rows in topic.rows.items()
        for row in rows[: position.get((topic.topic.id, number), 0)]
        if row is not None
    ]


@pytest.fixture(autouse=True)
def _definitions(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    text = DEFINITIONS.format(topic=layer.topic.topic.name)
    monkeypatch.setattr(Layer, "files", {"definitions.py": text.encode(), "tandem.toml": b""})


@pytest.mark.each_run("1")
@pytest.mark.parametrize("seed", [0, 1])
def test_every_path_counts_what_plain_python_counts(
    layer: Layer, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(seed)
    layer.start()
    beside = Beside(layer)
    beside.start()
    for step in range(12):
        for number in (dice.randrange(60) for _ in range(dice.randrange(8))):
            layer.topic.append([sale(number, again=dice.randrange(4))], partition=number % 3)
        layer.topic.append([dice.choice(BAD)], partition=dice.randrange(3))
        match dice.choice(("read", "read", "commit", "restart", "recompute")):
            case "commit":
                layer.streaming.trigger(dice.random)
            case "restart":
                layer.restart()
                beside.start()
            case "recompute" if step > 3:
                layer.archive()
                layer.drain()
                layer.recompute()
        try:
            beside.step()
        except HotTailEnded:
            beside.start()
        values = below(beside)
        assert totals_of(beside.connection.view("per_minute").rows()) == expected(values), step
    layer.drain()
    beside.step()
    assert (beside.position, beside.feed.mismatched) == (layer.end, 0)
    whole = expected(below(beside))
    assert answers_of(layer.tables) == whole
    layer.archive()
    live = layer.recompute()
    conflicts = len(contents(values)) - len(contents(values, "id"))
    assert (live.repaired, live.counts["sales"].conflicts) == ({"sales": 0}, conflicts)
    assert answers_of(layer.tables, "batch") == whole

    # What quarantine holds can be shown as events once the definitions read it.
    places = [(layer.topic.topic.id, number, at, None) for number, rows in layer.topic.rows.items() for at in range(len(rows))]
    tried = decode_again(layer.tables, layer.project.sources["sales"], places)
    values = [row["value"] for rows in layer.topic.rows.values() for row in rows if row is not None]
    reasons = Counter("missing_field" if value == BAD[0] else "repeated_key" for value in values if value in BAD)
    assert tried.reasons == dict(reasons)
    (shown,) = tried.events[next(place for place in places if place in tried.events)]
    assert isinstance(shown["fees"], dict)

    # Another installation, whose own topic continues behind the imported one with retries.
    export_archive.run(layer.tables, ["sales"], tmp_path / "moved", say=lambda _: None)
    other = replace(
        layer,
        settings=Settings(state=str(tmp_path / "other"), speed=layer.settings.speed),
        topic=layer.broker.new_topic(partitions=3),
    )
    text = DEFINITIONS.format(topic=other.topic.topic.name)
    monkeypatch.setattr(Layer, "files", {"definitions.py": text.encode(), "tandem.toml": b""})
    import_archive.run(other.settings, tmp_path / "moved", ["sales"], now=other.now, say=lambda _: None)
    new = [sale(number, again=5) for number in range(0, 90, 4)]
    other.topic.append([*new, *BAD])
    one_process.hot_stands_in(monkeypatch, other.broker)
    other.start()
    other.drain()
    assert answers_of(other.tables) == expected([*values, *new])
    other.archive()
    other.recompute()
    assert answers_of(other.tables, "batch") == expected([*values, *new])
