"""`check` refuses an event type that cannot read published records, and explains what would be valid."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish import adoption
from tandem.views.project.project import load

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, Version, View, count


class Order(Event):
    at: datetime
    cents: int


orders = Source(topic="orders", event=Order, event_time="at")
n = View(orders, measures={"n": count()})
SOURCES = (orders,)
VIEWS = (n,)
"""
EUROS = DEFINITIONS.replace("    cents: int", "    euros: float")
VERSIONED = EUROS.replace('event_time="at"', 'event_time="at", versions=(Version(InCents, in_euros),)').replace(
    "orders = Source",
    "class InCents(Event):\n    at: datetime\n    cents: int\n\n\n"
    "def in_euros(old):\n    return Order(at=old.at, euros=old.cents / 100)\n\n\norders = Source",
)


def test_a_break_needs_a_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def check(definitions: str) -> tuple[int, str]:
        (tmp_path / "definitions.py").write_text(definitions)
        code = main(["check", "--project", str(tmp_path), "--json"])
        return code, capsys.readouterr().out

    (tmp_path / "tandem.toml").write_text('state = "state"\n')
    assert check(EUROS)[0] == 0  # nothing is published
    assert check(DEFINITIONS)[0] == 0
    adoption.live(
        Tables(str(tmp_path / "state" / "tables")), lambda: load(tmp_path), by="test", at=datetime(2026, 11, 1, tzinfo=UTC)
    )
    assert check(DEFINITIONS)[0] == 0
    code, said = check(EUROS)
    assert code == 1
    assert json.loads(said)["error"].startswith(
        "definitions.py:7: source 'orders': Order.cents is removed; "
        "definitions.py:7: source 'orders': Order.euros is new and has no default"
    )
    assert "Source(versions=(Version(OldEvent, upgrade),))" in said
    code, said = check(VERSIONED)
    assert (code, json.loads(said)["sources"]["orders"]["versions"]) == (0, ["InCents"])
    assert check(DEFINITIONS.replace("cents: int", "cents: float\n    note: str | None = None"))[0] == 0
