"""docs/tables.md: its project is what its commands are run on, and they show what the page shows."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.documented import File, steps
from tests.serving.world import World

PRICES = [
    ("tea", 7, "3.00", False),
    ("pen", 8, "1.00", False),
    ("mug", 11, "12.00", False),
    ("pen", 10, "1.00", True),
    ("tea", 10, "3.50", False),
    ("tea", 6, "2.50", False),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's project with six versions, four of them below the cut."""
    files = {step.name: step for step in steps("tables.md") if isinstance(step, File)}
    files["kinds.csv"].write(tmp_path)
    definitions = files["definitions.py"].text
    appended = datetime.fromisoformat("2026-11-02T00:00:00Z")
    world = World(tmp_path, definitions=definitions, appended=appended, source="prices")
    orders = world.beside("orders")
    for sku, minute, items in (("tea", 450, 2), ("tea", 590, 3), ("pen", 500, 1), ("pen", 610, 5), ("ink", 480, 9)):
        order = {"sku": sku, "at": f"2026-11-01T{minute // 60:02}:{minute % 60:02}:00Z", "items": items}
        orders.append(0, json.dumps(order).encode())
    orders.trigger()
    for number, (sku, hour, price, deleted) in enumerate(PRICES):
        version = {"sku": sku, "since": f"2026-11-01T{hour:02}:00:00Z", "price": price, "deleted": deleted}
        world.append(0, json.dumps(version).encode())
        if number == 3:
            world.trigger()
            world.recompute(world.writer.end)
    world.trigger()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_each_command_on_tables_shows_what_the_page_shows(capsys: pytest.CaptureFixture[str]) -> None:
    for step in steps("tables.md"):
        if not isinstance(step, File):
            step.show(capsys, code=None)
