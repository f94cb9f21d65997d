"""A real Alertmanager (Debian's package prometheus-alertmanager) has the rows that are raised, and none that have ended."""

import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.infra.settings import AlertSettings
from tandem.serving.sinks.alerts.delivery import Receiver, deliver, receivers_of
from tandem.serving.sinks.posting import Undelivered
from tests.serving.sinks.alerts.receiver import receiver
from tests.serving.sinks.alerts.test_edges_fold_to_what_holds import a_world, alert, follower, look, more, repair
from tests.serving.world import DEFINITIONS, World, hit

PROGRAM = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
WAIT_S = 60


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = a_world(tmp_path)
    made.append(0, hit("/a", 1, minute=1), hit("/a", 2, minute=1), hit(None, 2, minute=1), hit(None, 2, minute=1))
    made.trigger()
    return made


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    command = [
        str(PROGRAM),
        f"--config.file={tmp_path / 'alertmanager.yml'}",
        f"--storage.path={tmp_path / 'alertmanager'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
    ]
    with (tmp_path / "alertmanager.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait(60)


def ask(address: str) -> list[dict[str, Any]]:
    end = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(f"{address}/api/v2/alerts", timeout=10) as answer:
                found: list[dict[str, Any]] = json.loads(answer.read())
                return found
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def alertmanager(address: str) -> Receiver:
    (found,) = receivers_of(AlertSettings(alertmanager=address), lambda: datetime.now(UTC))
    return found


@pytest.mark.skipif(PROGRAM is None, reason="needs Debian's package prometheus-alertmanager")
def test_what_is_raised_is_active_there_until_it_ends(world: World, address: str) -> None:
    of, to = follower(world, alert(world, "per_page", "n > 1", text="{page}: {n}")), alertmanager(address)
    of.receivers, of.clock = ("alertmanager",), lambda: datetime.now(UTC)
    assert ask(address) == []
    assert len(look(of)) == 2
    assert deliver([of.book], to) == 2
    active = {each["labels"]["page"]: each for each in ask(address)}
    assert set(active) == {"/a", "NULL"}
    assert active["/a"]["labels"] | {"window_start": ""} == {
        "alertname": "busy",
        "view": "per_page",
        "page": "/a",
        "window_start": "",
    }
    assert active["/a"]["annotations"]["summary"] == "/a: 2"
    assert active["/a"]["status"]["state"] in ("active", "unprocessed")
    repair(world, 0)
    assert [edge.kind for edge in look(of)] == ["corrected"]
    assert deliver([of.book], to) == 1
    assert {each["labels"]["page"] for each in ask(address)} == {"NULL"}
    assert of.book.document.unsent("alertmanager") == ()


def test_what_is_raised_is_repeated_and_an_end_says_what_it_corrects(world: World) -> None:
    with receiver() as heard:
        of = follower(world, alert(world, "per_page", "n > 1", text="{page}: {n}"))
        of.receivers = ("alertmanager",)
        (to,) = receivers_of(AlertSettings(alertmanager=heard.address), lambda: world.clock)
        look(of)
        assert (deliver([of.book], to), deliver([of.book], to)) == (2, 0)
        assert len(heard.requests) == 1
        world.clock += timedelta(minutes=1)
        assert deliver([of.book], to) == 0
        assert len(heard.documents[1]) == 2, "what is raised is repeated"
        more(world, hit("/b", 1, minute=1))
        repair(world, 0)
        look(of)
        assert deliver([of.book], to) == 1
        (end,) = heard.documents[2]
        notes = end["annotations"]
        assert (notes["kind"], notes["because"], notes["id"]) == (
            "corrected",
            "recompute",
            heard.documents[0][0]["annotations"]["id"],
        )
        assert [json.loads(notes[name])["n"] for name in ("raised_row", "row")] == [2, 1]
        assert end["endsAt"] <= world.clock.isoformat().replace("+00:00", "Z")


def test_a_fault_is_over_once_what_is_raised_is_repeated(world: World) -> None:
    with receiver() as heard:
        of = follower(world, alert(world, "per_page", "n > 1"))
        of.receivers = ("alertmanager",)
        (to,) = receivers_of(AlertSettings(alertmanager=heard.address), lambda: world.clock)
        look(of)
        assert deliver([of.book], to) == 2
        world.clock += timedelta(minutes=1)
        heard.answers = [503]
        with pytest.raises(Undelivered):
            deliver([of.book], to)
        assert set(of.book.document.faults) == {"alertmanager"}
        assert deliver([of.book], to) == 0
        assert of.book.document.faults == {}
        version = of.book._handle.version()
        assert deliver([of.book], to) == 0
        assert of.book._handle.version() == version, "nothing is stored while nothing changes"


def test_rows_of_a_key_that_has_the_name_of_a_label_are_alerts_of_their_own(tmp_path: Path) -> None:
    definitions = DEFINITIONS.replace('keys={"page": "page"}', 'keys={"view": "page", "alertname": "bytes"}')
    world = World(tmp_path, definitions=definitions)
    world.append(0, hit("/a", 1), hit("/b", 1), hit("/b", 2))
    world.trigger()
    with receiver() as heard:
        of = follower(world, alert(world, "per_page", "n > 0"))
        of.receivers = ("alertmanager",)
        (to,) = receivers_of(AlertSettings(alertmanager=heard.address), lambda: world.clock)
        look(of)
        deliver([of.book], to)
        labels = [each["labels"] for each in heard.documents[0]]
    assert {(each["key_view"], each["key_alertname"]) for each in labels} == {("/a", "1"), ("/b", "1"), ("/b", "2")}
    assert {(each["view"], each["alertname"]) for each in labels} == {("per_page", "busy")}
