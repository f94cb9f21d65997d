"""`status --watch` shows the report again until a signal, one document a line with `--json`."""

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.cli.command.call import Call, Output
from tandem.cli.run import report_loop


@pytest.mark.parametrize("form", ["json", "screen"])
def test_a_report_is_repeated_until_a_signal(
    form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report_loop, "_EVERY_S", 0.01)
    monkeypatch.setattr("sys.stdout.isatty", lambda: form == "screen")
    number = 0

    def report(say: Callable[[str], object]) -> Output:
        nonlocal number
        number += 1
        say(f"note {number}")
        if number == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return Output({"number": number}, f"report {number}", number)

    last = report_loop.repeat_report(Call(Path(), json=form == "json", debug=False, environ={}), report)
    shown = capsys.readouterr().out
    assert (last.document, last.code) == ({"number": 3}, 3)
    if form == "json":
        assert [json.loads(line) for line in shown.splitlines()] == [{"number": 1}, {"number": 2}]
    else:
        screens = shown.split("\x1b[H\x1b[2J")[1:]
        assert [screen.splitlines()[2:] for screen in screens] == [[f"note {n}", f"report {n}"] for n in (1, 2)]


def test_a_pipe_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["init", str(tmp_path / "shop")]) == 0
    assert main(["status", "--watch", "--project", str(tmp_path / "shop")]) == 1
    assert "`--watch` needs a terminal, or --json" in capsys.readouterr().err
