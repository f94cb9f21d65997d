"""docs/look-ups.md: its project is what its commands are run on, and they show what the page shows."""

import json
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.infra.settings import load
from tests import one_process
from tests.documented import Command, File, steps
from tests.one_process import MemoryBroker
from tests.speed.test_look_ups_in_one_process import OneOf, Shop


def written(**fields: object) -> bytes:
    return json.dumps(fields).encode()


def time(minute: int) -> str:
    return f"2026-11-01T{minute // 60:02}:{minute % 60:02}:00Z"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shop:
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    (definitions,) = (step for step in steps("look-ups.md") if isinstance(step, File))
    definitions.write(tmp_path)
    (tmp_path / "tandem.toml").write_text("[speed]\ntable_wait_ms = 0\n")
    settings = load(tmp_path, {})
    text = definitions.text.encode()
    monkeypatch.chdir(tmp_path)
    layers = {
        name: OneOf(broker, broker.new_topic(name), settings, source=name, definitions=text)
        for name in ("prices", "orders", "makers")
    }
    layers["makers"].topic.append([written(id="kyo", since=time(480), country="Japan")])
    layers["makers"].start()
    layers["makers"].drain()
    return Shop(layers["prices"], layers["orders"])


def test_each_command_on_look_ups_shows_what_the_page_shows(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    before, chain, late, after = (step for step in steps("look-ups.md") if isinstance(step, Command))

    def refuse_other(step: Command) -> None:
        step.show(capsys, code=None)

    shop.prices.start()
    shop.orders.start()
    shop.prices.topic.append(
        [written(sku="tea", since=time(minute), price=price, maker="kyo") for minute, price in ((480, "2.00"), (510, "3.00"))]
    )
    shop.prices.drain()
    orders = ((490, "tea", 2), (520, "tea", 1), (530, "pen", 4))
    shop.orders.topic.append([written(at=time(minute), sku=sku, items=items) for minute, sku, items in orders])
    shop.orders.drain()
    refuse_other(before)
    refuse_other(chain)
    assert main(["why", "by_country", "--key", "country=Japan"]) == 0
    shown = capsys.readouterr().out
    assert "computed again from these events by the plain oracle: the same" in shown
    assert "price=3.00 maker=kyo deleted=false  since=2026-11-01T08:00:00Z country=Japan" in shown
    shop.prices.topic.append([written(sku="tea", since=time(485), price="1.00", maker="kyo")])
    shop.prices.drain()
    refuse_other(late)
    shop.orders.archive()
    shop.recompute()
    refuse_other(after)


@pytest.mark.usefixtures("shop")
def test_one_file_does_not_have_what_a_look_up_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orders.jsonl").write_bytes(written(at=time(490), sku="tea", items=2) + b"\n")
    assert main(["try", "sales", "orders.jsonl"]) != 0
    assert "looks up in a table of prices, and a file has records of one source" in capsys.readouterr().err
    assert main(["try", "price_of", "orders.jsonl"]) != 0, "orders are no prices"
