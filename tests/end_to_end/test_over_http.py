"""A program over HTTP alone, on the real parts: sends events that count once, promotes a release and rolls it back."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.folders import ROOT
from tandem.serving.client.server_client import Client, Refused, client
from tests.end_to_end.test_readme import typed
from tests.stack import environ

DEFINITIONS = """
from datetime import datetime

from tandem import Event, Source, View, count, total, tumbling


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
    """A client of a server beside the platform, which may do everything."""
    _tandem(project, "up")
    command = [sys.executable, "-m", "tandem.cli", "serve", "--project", str(project), "--port", "0", "--json"]
    process = subprocess.Popen(command, cwd=ROOT, env=environ(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = json.loads(process.stdout.readline())["address"]
        secret = (project / ".tandem" / "access" / "first.token").read_text().strip()
        with client(address, secret, timeout_s=60) as found:
            yield found
    finally:
        process.terminate()
        process.communicate(timeout=300)


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
@pytest.mark.timeout(1800)
def test_a_release_is_built_promoted_rolled_back_and_retired(project: Path, asked: Client) -> None:
    sent = asked.send("orders", [order("OSLO", 1), order("OSLO", 2), order("ROME", 3)])
    old = {"OSLO": (2, 3), "ROME": (1, 3)}
    assert counted(asked, sent.min_position) == old
    _tandem(project, "archive")
    assert _tandem(project, "recompute")["publication"] == 2
    (project / "definitions.py").write_text(DEFINITIONS.replace("source=orders, keys", 'source=orders, where="items > 1", keys'))
    planned = run(asked, "plan")
    assert (planned["state"], planned["document"]["views"]["sales"]["status"]) == ("changes", "changed")
    applied = run(asked, "apply", why="single items are samples")
    assert applied["state"] == "done", applied["lines"]
    assert (applied["document"]["release"], applied["document"]["promoted"]) == (2, False)
    difference = applied["document"]["views"]["sales"]
    assert (difference["changed"], difference["matched"], difference["only_old"], difference["only_new"]) == (1, 2, 0, 0)
    # Answers stay as they are until the release is live, and it has counted what came meanwhile.
    sent = asked.send("orders", [order("ROME", 1), order("ROME", 4)])
    assert counted(asked, sent.min_position) == {"OSLO": (2, 3), "ROME": (3, 8)}
    assert run(asked, "promote", release=2)["document"]["release"] == 2
    assert counted(asked, sent.min_position) == {"OSLO": (1, 2), "ROME": (2, 7)}
    assert run(asked, "rollback", why="they were no samples")["document"]["release"] == 1
    assert counted(asked, sent.min_position) == {"OSLO": (2, 3), "ROME": (3, 8)}
    assert run(asked, "retire", release=2)["document"] == {"release": 2, "stage": "retired"}
    history = asked.http.get("/history").json()["publications"]
    assert [one["by"] for one in history if one["kind"] in ("promote", "rollback")] == [
        "rollback (token:first)",
        "promote (token:first)",
    ]


def run(asked: Client, command: str, **options: Any) -> dict[str, Any]:
    """A command that the server ran, at its end."""
    begun = asked.http.post(f"/runs/{command}", json=options)
    assert begun.status_code == 202, begun.text
    found: dict[str, Any] = begun.json()
    while not found.get("ended"):
        time.sleep(0.2)  # nothing tells when it ends
        found = asked.http.get(begun.headers["location"]).json()
    return found
