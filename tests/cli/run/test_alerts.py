"""docs/alerts.md does what it shows, and `tandem alerts` runs and lists the alerts of a project."""

import json
import shlex
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.infra.folders import ROOT
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
            assert main(shlex.split(step.line)[1:]) == 0, capsys.readouterr().err
            shown = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines()) + "\n"
            assert step.missing(shown) is None, f"{step.missing(shown)!r} is not in\n{shown}"


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
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["alerts", "--once"], "--once is for `tandem alerts run`"),
        (["alerts", "run", "--view", "x"], "--view and --key are for `tandem alerts list`"),
        (["alerts", "--key", "route"], "--key 'route'; write NAME=VALUE"),
    ],
)
def test_options_that_do_nothing_are_refused(
    world: World, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
) -> None:
    assert main(words) != 0
    assert sentence in capsys.readouterr().err
