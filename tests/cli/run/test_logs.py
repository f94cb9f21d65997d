"""`tandem logs` shows what was said since when and how bad, of which part, follows it, and shows no secret."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.cli.command.call import AlreadyLogged, Call
from tandem.cli.command.command_log import part_log, run_log
from tests.stack import PYTHONPATH, environ

Show = Callable[..., tuple[int, str, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").write_text('[kafka]\npassword = "hush"\n')
    logs = tmp_path / ".tandem" / "logs"
    logs.mkdir(parents=True)
    write(logs / "speed.log", 50, "error", "the broker is gone")
    write(logs / "speed.log", 3, "info", "going on with hush")
    write(logs / "broker.log", 20, "warn", "a full disk")
    return tmp_path


def write(path: Path, ago: int, level: str, text: str) -> None:
    at = (datetime.now(UTC) - timedelta(minutes=ago)).isoformat()
    with path.open("a") as file:
        file.write(json.dumps({"time": at, "level": level, "event": text, "source": "hits"}) + "\n")


@pytest.fixture
def show(folder: Path, capsys: pytest.CaptureFixture[str]) -> Show:
    def show(*arguments: str) -> tuple[int, str, str]:
        code = main(["logs", *arguments, "--project", str(folder)])
        return code, *capsys.readouterr()

    return show


def texts(found: tuple[int, str, str]) -> list[str]:
    assert found[0] == 0, found[2]
    return [line["event"] for line in json.loads(found[1])["lines"]]


def test_lines_of_all_parts_are_merged_and_filtered(show: Show) -> None:
    assert texts(show("--json")) == ["the broker is gone", "a full disk", "going on with ********"]
    assert texts(show("speed", "--json")) == ["the broker is gone", "going on with ********"]
    assert texts(show("--level", "warning", "--json")) == ["the broker is gone", "a full disk"]
    assert texts(show("--since", "30m", "--json")) == ["a full disk", "going on with ********"]
    hour = (datetime.now(UTC) - timedelta(minutes=10)).isoformat()
    assert texts(show("--since", hour, "--json")) == ["going on with ********"]
    assert texts(show("--limit", "1", "--json")) == ["going on with ********"]


def test_each_event_is_one_line_of_text(show: Show) -> None:
    code, out, _ = show("--level", "error")
    assert code == 0
    assert out.endswith("  error    speed            the broker is gone  source=hits\n")
    assert "hush" not in show()[1]


def test_a_part_without_a_log_is_refused_with_the_valid_ones(show: Show) -> None:
    code, _, err = show("sped")
    assert (code, "parts: speed, broker" in err) == (1, True)


def test_following_shows_existing_and_new_lines(folder: Path) -> None:
    command = [sys.executable, "-m", "tandem.cli", "logs", "speed", "--follow", "--json", "--project", str(folder)]
    with subprocess.Popen(command, env={**environ(), "PYTHONPATH": PYTHONPATH}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            assert [said(process.stdout.readline()) for _ in range(2)] == ["the broker is gone", "going on with ********"]
            path = folder / ".tandem" / "logs" / "speed.log"
            path.rename(path.with_name("speed.log.1"))
            write(path, 0, "info", "again")
            assert said(process.stdout.readline()) == "again"
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def said(line: str) -> Any:
    return json.loads(line)["event"]


def test_runs_and_parts_log_how_they_ended(folder: Path, show: Show) -> None:
    call = Call(folder, json=False, debug=False, environ={})
    settings = call.settings()

    def archive() -> None:
        with run_log(call, settings, "archive") as say:
            say("copying")
            raise OSError(28, "Disk full", "/x")

    with pytest.raises(OSError, match="full"):
        archive()
    with pytest.raises(AlreadyLogged, match="KeyError"), part_log(call, settings, "metrics"):
        raise KeyError("x")
    lines = json.loads(show("archive", "metrics", "--json")[1])["lines"]
    assert [(line["part"], line["level"], line["event"]) for line in lines] == [
        ("archive", "info", "began"),
        ("archive", "info", "copying"),
        ("archive", "error", "disk full: /x"),
        ("metrics", "info", "began"),
        ("metrics", "error", "KeyError: 'x'"),
    ]
    assert lines[0]["run"] == lines[2]["run"]
