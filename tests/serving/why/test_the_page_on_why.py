"""docs/why.md: its commands show what the page shows of its project; and rows of views of every origin are explained."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.infra.settings import load
from tests import one_process
from tests.documented import Command, File, steps
from tests.one_process import MemoryBroker
from tests.serving.why.shop import sale
from tests.speed.test_look_ups_in_one_process import OneOf

TOGETHER = """
from datetime import datetime

import pyarrow.compute as pc

from tandem import Event, Source, Table, View, all_time, count, derived, last, maximum, rollup, total, tumbling


class Price(Event):
    sku: str
    since: datetime
    price: int


class Order(Event):
    id: str
    at: datetime
    sku: str
    items: int


class Refund(Event):
    at: datetime
    sku: str
    items: int


class Note(Event):
    at: datetime
    text: str


def words(notes):
    if any("!" in text for text in notes["text"].to_pylist()):
        raise ValueError("a word is shouted")
    split = pc.split_pattern_regex(notes["text"].combine_chunks(), " ")
    return notes.take(pc.list_parent_indices(split)).append_column("word", pc.list_flatten(split))


prices = Source(topic="prices", event=Price, event_time="since")
orders = Source(topic="orders", event=Order, event_time="at", identity=("id",))
refunds = Source(topic="refunds", event=Refund, event_time="at")
notes = Source(topic="notes", event=Note, event_time="at", identity=("text",), prepare=words)
price_of = Table(prices, key={"sku": "sku"})
sold = View(orders, lookup={"p": price_of.as_of(sku="sku")}, keys={"sku": "sku"}, window=tumbling(hours=1),
    measures={"n": count(), "worth": total("items * p.price")})
net = View(source=(orders, refunds), keys={"sku": "sku"}, window=tumbling(hours=1), measures={
    "ordered": total("items", of=orders), "back": total("items", of=refunds), "rate": derived("back / ordered"),
    "most": maximum("items", of=orders), "events": count()})
whole = rollup(net, keys={"letter": "substr(sku, 1, 1)"}, window=all_time(), name="whole")
dear = View(source=price_of.rows(), measures={"n": count(), "dearest": maximum("price")})
spoken = View(notes, keys={"word": "word"}, window=tumbling(hours=1),
    measures={"n": count(), "late": last("text", filter="word <> 'a'")})
SOURCES = (prices, orders, refunds, notes)
VIEWS = (price_of, sold, net, whole, dear, spoken)
"""


@dataclass(frozen=True)
class Stack:
    """The layers of the sources of a project in a folder, by name."""

    layers: dict[str, OneOf]

    def append(self, source: str, *values: bytes) -> None:
        layer = self.layers[source]
        layer.topic.append([*values])
        layer.drain()

    def recompute(self) -> None:
        for layer in self.layers.values():
            layer.archive()
        published = next(iter(self.layers.values())).recompute()
        for layer in self.layers.values():
            layer.follow.tail.live = published


def stack(folder: Path, patch: pytest.MonkeyPatch, text: str, *sources: str) -> Stack:
    broker = MemoryBroker()
    broker.stand_in(patch)
    one_process.speed_stands_in(patch, broker)
    (folder / "definitions.py").write_text(text)
    (folder / "tandem.toml").write_text("[speed]\ntable_wait_ms = 0\n")
    settings = load(folder, {})
    patch.chdir(folder)
    topics = {name: broker.new_topic(name) for name in sources}
    made = Stack({name: OneOf(broker, topics[name], settings, source=name, definitions=text.encode()) for name in sources})
    for layer in made.layers.values():
        layer.start()
    return made


def test_each_command_on_why_shows_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (definitions,) = (step for step in steps("why.md") if isinstance(step, File))
    shop = stack(tmp_path, monkeypatch, definitions.text, "sales")
    once = sale("a", 5)
    shop.append("sales", once, sale("b", 20, price="2.50"), once, sale("c", 40, price="3.00"), sale("d", 50, price="-1.00"))
    shop.append("sales", sale("e", 75, "BERGEN"))
    shop.recompute()
    shop.append("sales", sale("f", 30, price="4.00"), sale("g", 55), b'{"id": "h", "city": "OSLO"', sale("i", 80))
    for step in steps("why.md"):
        if isinstance(step, Command):
            step.show(capsys)


def test_rows_of_every_origin_are_explained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = stack(tmp_path, monkeypatch, TOGETHER, "prices", "orders", "refunds", "notes")

    def at(minute: int) -> str:
        return f"2026-11-01T08:{minute:02}:00Z"

    def written(**fields: object) -> bytes:
        return json.dumps(fields).encode()

    def why(*words: str, code: int = 0) -> dict[str, object]:
        assert main(["why", *words, "--json"]) == code
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    shop.append("prices", written(sku="tea", since=at(0), price=2), written(sku="tea", since=at(30), price=3))
    shop.append("orders", written(id="1", at=at(10), sku="tea", items=2), written(id="1", at=at(10), sku="tea", items=2))
    shop.append("refunds", written(at=at(20), sku="tea", items=1))
    shop.append("notes", written(at=at(1), text="a b a"), written(at=at(1), text="a b a"), written(at=at(2), text="b"))
    shop.recompute()
    shop.append("notes", written(at=at(3), text="c a"))
    shop.append("orders", written(id="2", at=at(40), sku="tea", items=5), written(id="3", at=at(41), sku="toy", items=1))
    shop.append("refunds", written(at=at(50), sku="tea", items=2))

    sold = why("sold", "--key", "sku=tea", "--window", at(0))
    assert sold["row"]["worth"] == 2 * 2 + 5 * 3  # type: ignore[index]
    assert [event["fields"]["p"]["price"] for event in sold["sources"]["orders"]["listed"]] == [2, 3]  # type: ignore[index]
    net = why("net", "--key", "sku=tea", "--window", at(0))
    assert net["agrees"]
    assert {name: source["events"] for name, source in net["sources"].items()} == {"orders": 2, "refunds": 2}  # type: ignore[attr-defined]
    assert {each["measure"]: each["verdict"] for each in net["measures"]} == dict.fromkeys(  # type: ignore[attr-defined]
        ("ordered", "back", "rate", "most", "events"), "equal"
    )
    assert net["sources"]["orders"]["duplicates"]["number"] == 1  # type: ignore[index]
    for measure, orders, refunds in (("back", 0, 2), ("most", 2, 0), ("rate", 2, 2)):
        of_one = why("net", "--key", "sku=tea", "--window", at(0), "--measure", measure)["sources"]
        assert {name: source["events"] for name, source in of_one.items()} == {"orders": orders, "refunds": refunds}  # type: ignore[attr-defined]
    whole = why("whole", "--key", "letter=t")
    assert whole["agrees"]
    assert {name: source["events"] for name, source in whole["sources"].items()} == {"orders": 3, "refunds": 2}  # type: ignore[attr-defined]
    for chosen in ((), ("--measure", "price")):
        table = why("price_of", "--key", "sku=tea", *chosen)
        assert (table["row"]["price"], table["sources"]["prices"]["events"]) == (3, 2)  # type: ignore[index]
    spoken = why("spoken", "--key", "word=a", "--window", at(0))
    assert (spoken["row"]["n"], spoken["agrees"]) == (3, True)  # type: ignore[index]
    assert [event["layer"] for event in spoken["sources"]["notes"]["listed"]] == ["batch", "batch", "speed"]  # type: ignore[index]
    hour_later = written(at="2026-11-01T09:01:00Z", text="a later a")
    shop.append("notes", hour_later, hour_later, written(at=at(4), text="a! b"), written(at="2026-11-01T09:04:00Z", text="a!"))
    notes = why("spoken", "--key", "word=a", "--window", at(0))["sources"]["notes"]  # type: ignore[index]
    assert notes["rejected"]["first"] == [{"at": notes["rejected"]["first"][0]["at"], "time": at(4), "reason": "prepare"}]
    assert (notes["rejected"]["number"], notes["duplicates"]["number"]) == (1, 1), "those of the next hour are of another row"
    refusal = why("dear", code=1)
    assert "counts the rows of table 'price_of', not events" in str(refusal["error"])
    shop.append("prices", written(sku="tea", since=at(5), price=1))
    late = why("sold", "--key", "sku=tea", "--window", at(0))
    assert late["agrees"], "below the cut the versions are those that the batch layer knew"
