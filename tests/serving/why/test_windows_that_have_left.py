"""A row of a window that has left its view is explained as such: neither a difference nor a repaired duplicate."""

import json
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.infra.settings import load
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publications
from tests.serving.why.test_the_page_on_why import stack

KEPT = """
from datetime import datetime, timedelta
from tandem import Event, Source, View, count, rollup, total, tumbling


class Order(Event):
    at: datetime
    sku: str
    items: int


orders = Source(topic="orders", event=Order, event_time="at")
hourly = View(orders, keys={"sku": "sku"}, window=tumbling(hours=1), keep=timedelta(hours=2), measures={
    "n": count(), "items": total("items")})
twos = rollup(hourly, window=tumbling(hours=2), name="twos")
"""


def test_rows_of_windows_that_have_left_are_no_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = stack(tmp_path, monkeypatch, KEPT, "orders")

    def order(hour: int, items: int) -> bytes:
        return json.dumps({"at": f"2026-11-01T{hour:02}:10:00Z", "sku": "tea", "items": items}).encode()

    def asked(*words: str) -> dict[str, object]:
        assert main([*words, "--json"]) == 0
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    def numbers() -> list[int]:
        return [each.number for each in Publications(Tables.of(load(tmp_path, {}))).history() if each.kind == "recompute"]

    shop.append("orders", order(8, 2), order(9, 3))
    shop.recompute()
    shop.append("orders", order(12, 5))
    shop.recompute()
    first, last = numbers()[0], numbers()[-1]
    changed = asked("why-changed", "hourly", "--between", str(first), "now")
    assert changed["kept_from"] == "2026-11-01T10:00:00Z"
    assert [(row["row"]["window_start"], row["measures"][0]["parts"]) for row in changed["rows"]] == [  # type: ignore[attr-defined]
        ("2026-11-01T12:00:00Z", {"new events": 1})
    ]
    assert asked("why-changed", "hourly", "--between", str(last), "now")["rows"] == []
    for view, start in (("hourly", "09"), ("twos", "08")):
        words = ("why", view, "--key", "sku=tea", "--window", f"2026-11-01T{start}:00Z")
        gone = asked(*words)
        assert (gone["row"], gone["agrees"], gone["may_change"]) == (None, True, ["another release of the definitions"])
        assert gone["sources"]["orders"]["events"] == 0  # type: ignore[index]
        assert main([*words]) == 0
        assert "windows before 2026-11-01T10:00:00Z have left the view" in capsys.readouterr().out
    assert asked("why", "hourly", "--key", "sku=tea", "--window", "2026-11-01T12:00Z")["sources"]["orders"]["events"] == 1  # type: ignore[index]
