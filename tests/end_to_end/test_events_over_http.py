"""Events that are sent to a server are counted once each, by speed and by batch, however often a request is sent."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.jars import ROOT
from serving.client import Client, Refused, client
from tests.end_to_end.test_readme import typed
from tests.stack import environ

DEFINITIONS = """
from datetime import datetime

from views import Event, Source, View, count, total, tumbling


class Order(Event):
    at: datetime
    city: str
    items: int


orders = Source(topic="orders", event=Order, event_time="at", identity=("_idempotency_key",))
sales = View(source=orders, keys={"city": "city"}, window=tumbling(hours=1), measures={"n": count(), "items": total("items")})
SOURCES = (orders,)
VIEWS = (sales,)
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "definitions.py").write_text(DEFINITIONS)
    (folder / "tandem.toml").write_text('[kafka]\nmemory = "256m"\n[spark]\nmaster = "local[2]"\ndriver_memory = "512m"\n')
    yield folder
    typed("./tandem down --project shop", tmp_path)


@pytest.fixture
def asked(project: Path) -> Iterator[Client]:
    """A client of a server beside the platform."""
    _tandem(project, "up")
    command = [sys.executable, "-m", "cli", "serve", "--project", str(project), "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, env=environ(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        secret = (project / ".tandem" / "access" / "first.token").read_text().strip()
        with client(address, secret, timeout_s=60) as found:
            yield found
    finally:
        process.terminate()
        process.communicate(timeout=60)


def _tandem(project: Path, command: str) -> dict[str, Any]:
    done = typed(f"./tandem {command} --project shop --json", project.parent)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def order(city: str, items: int) -> dict[str, Any]:
    return {"at": f"2026-11-01T12:00:{items:02}Z", "city": city, "items": items}


def counted(asked: Client, position: str | None) -> dict[str, tuple[int, int]]:
    """What is answered once the server counts what was sent up to a position."""
    while True:
        try:
            rows = asked.rows("sales", min_position=position).rows
            return {row["city"]: (row["n"], row["items"]) for row in rows}
        except Refused as refused:
            if refused.status != 504:  # else the speed layer is on its way
                raise


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.timeout(1200)
def test_a_request_that_is_sent_again_counts_once_in_both_layers(project: Path, asked: Client) -> None:
    first = [order("OSLO", 1), order("OSLO", 1), order("ROME", 2)]
    asked.send("orders", first, idempotency_key="one")
    again = asked.send("orders", first, idempotency_key="one")
    assert counted(asked, again.min_position) == {"OSLO": (2, 2), "ROME": (1, 2)}
    # Without a key nothing is a copy of anything.
    asked.send("orders", [order("ROME", 2)])
    last = asked.send("orders", [order("ROME", 2)])
    known = {"OSLO": (2, 2), "ROME": (3, 6)}
    assert counted(asked, last.min_position) == known
    _tandem(project, "archive")
    assert _tandem(project, "recompute")["publication"] == 2
    # In the batch now, and a copy of what is below the cut is known too.
    assert counted(asked, asked.send("orders", first, idempotency_key="one").min_position) == known
    status = next(iter(_tandem(project, "status")["sources"].values()))
    assert status["duplicates"] == 6
