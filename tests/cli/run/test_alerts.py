"""docs/alerts.md does what it shows, and `tandem alerts` runs and lists the alerts of a project."""

import json
import re
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.cli.doctor import alerts as looks
from tandem.infra.folders import ROOT
from tests.cli.doctor.looked import fine, wrong
from tests.documented import File, steps
from tests.serving.sinks.alerts.receiver import receiver
from tests.serving.world import NOON, World


def request(route: str, status: int, minute: int = 1) -> bytes:
    moment = (NOON + timedelta(minutes=minute)).isoformat()
    return json.dumps({"moment": moment, "route": route, "status": status}).encode()


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The page's project, with some requests."""
    (definitions,) = (step.text for step in steps("alerts.md") if isinstance(step, File))
    made = World(tmp_path, definitions=definitions, appended=NOON + timedelta(days=1))
    made.append(0, request("/pay", 200), request("/pay", 500), request("/pay", 503), request("/", 200))
    made.trigger()
    monkeypatch.chdir(tmp_path)
    return made


def test_each_command_prints_what_the_page_shows(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for step in steps("alerts.md"):
        if not isinstance(step, File):
            step.show(capsys)


def test_a_correction_is_sent_and_listed(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiver() as heard:
        monkeypatch.setenv("TANDEM_ALERTS_WEBHOOK", heard.address)
        monkeypatch.setenv("TANDEM_ALERTS_SECRET", "a secret")
        assert main(["alerts", "run", "--once", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["acknowledged"] == 1
        world.log[0][1:3] = [b"{", b"{"]  # a recompute repairs what was counted wrongly
        world.recompute(world.writer.end)
        heard.answers = [500]
        assert main(["alerts", "run", "--once"]) == 1
        assert "answered 500" in capsys.readouterr().err
        assert main(["alerts", "--json"]) == 0
        listed = json.loads(capsys.readouterr().out)
        assert listed["alerts"][0]["unsent"] == {"webhook": 1}
        assert "answered 500" in listed["alerts"][0]["faults"]["webhook"]
        assert main(["alerts", "run", "--once"]) == 0
        first, *others = heard.documents
    assert {(each["kind"], each["because"], each["of"]) for each in others} == {("corrected", "recompute", first["id"])}
    assert [others[0][when]["row"]["errors"] for when in ("raised", "now")] == [2, 0]
    capsys.readouterr()
    assert main(["alerts"]) == 0
    assert "0 raised" in capsys.readouterr().out


def test_alerts_run_until_they_are_stopped_and_after_a_kill(world: World) -> None:
    command = [sys.executable, "-m", "tandem.cli", "alerts", "run", "--json", "--project", str(world.folder)]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)

    process = start()
    try:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["kind"], first["place"]["route"]) == ("raised", "/pay")
        process.kill()
        process.wait(60)
        world.append(0, *(request("/pay", 200) for _ in range(97)))
        world.trigger()
        process = start()
        assert process.stdout is not None
        second = json.loads(process.stdout.readline())
        assert (second["kind"], second["because"], second["of"]) == ("cleared", "events", first["id"])
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        assert process.returncode == 0
    finally:
        process.kill()


def test_edges_are_followed_as_they_are_stored(world: World) -> None:
    def start(*words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tandem.cli", "alerts", "--follow", *words, "--project", str(world.folder)]
        return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    assert main(["alerts", "run", "--once"]) == 0
    everything, of_cart = start(), start("--json", "--key", "route=/cart")
    try:
        for process in (everything, of_cart):
            assert process.stderr is not None
            assert (
                process.stderr.readline() == f"{1 if process is everything else 0} raised; each new edge follows until Ctrl-C\n"
            )
        world.append(0, *(request("/pay", 200) for _ in range(97)), *(request("/cart", 500) for _ in range(3)))
        world.trigger()
        assert main(["alerts", "run", "--once"]) == 0
        assert everything.stdout is not None
        assert of_cart.stdout is not None
        lines = {everything.stdout.readline().partition(" (")[0] for _ in range(2)}
        assert lines == {"raised failing of page_errors", "cleared failing of page_errors"}
        assert json.loads(of_cart.stdout.readline())["place"]["route"] == "/cart"
        for process in (everything, of_cart):
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=300)[0] == ""
            assert process.returncode == 0
    finally:
        everything.kill()
        of_cart.kill()


def test_status_and_doctor_show_what_is_raised_and_what_a_receiver_lacks(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wrong(world.folder, "alerts", looks.BEHIND).what == "alert failing has never run"
    assert printed(capsys)["alerts"] == []
    with receiver() as heard:
        heard.answers = [500]
        monkeypatch.setenv("TANDEM_ALERTS_WEBHOOK", heard.address)
        monkeypatch.setenv("TANDEM_ALERTS_SECRET", "a secret")
        assert main(["alerts", "run", "--once"]) == 1
        (alert,) = printed(capsys)["alerts"]
        assert (alert["alert"], alert["raised"], alert["waiting"], alert["unsent"]) == ("failing", 1, 0, {"webhook": 1})
        assert alert["problem"].startswith("alert failing: webhook lacks 1 edge: ")
        assert main(["status"]) == 0
        shown = capsys.readouterr().out
        assert alert["problem"] in shown
        assert re.search(r"^failing +1 +0 +1 +20", shown, re.MULTILINE)
        assert wrong(world.folder, "alerts", looks.FAILING).what == f"{alert['problem']}; it is raised for 1 row"
        assert main(["alerts", "run", "--once"]) == 0
        assert fine(world.folder, "alerts") == "alert failing is raised for 1 row; 0 edges wait for webhook"
    assert printed(capsys)["alerts"][0]["problem"] is None
    world.append(0, request("/", 200))
    world.trigger()
    assert wrong(world.folder, "alerts", looks.BEHIND).what == "alert failing is raised for 1 row, and 1 offset behind answers"


def printed(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["status", "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["alerts", "--once"], "--once is for `tandem alerts run`"),
        (["alerts", "run", "--view", "x"], "--view, --key and --follow are for `tandem alerts list`"),
        (["alerts", "run", "--follow"], "--view, --key and --follow are for `tandem alerts list`"),
        (["alerts", "--key", "route"], "--key 'route'; write NAME=VALUE"),
    ],
)
def test_options_that_do_nothing_are_refused(
    world: World, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(words) != 0
    assert sentence in capsys.readouterr().err
