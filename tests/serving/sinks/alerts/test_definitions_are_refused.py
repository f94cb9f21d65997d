"""`check` shows the alerts of a project, and refuses a wrong definition in one sentence that names its place."""

from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tests.serving.world import DEFINITIONS

ALERT = """
slow = Alert(per_page, when="mean > 5 AND n > 1", states=("on_time", "final"), clear="mean < 3", text="{page}: {mean:.1f}")
"""
WITH_ALERT = DEFINITIONS.replace("import Event,", "import Alert, Event,") + ALERT


def check(folder: Path, definitions: str) -> int:
    (folder / "tandem.toml").touch()
    (folder / "definitions.py").write_text(definitions)
    return main(["check", "--project", str(folder)])


def test_check_shows_an_alert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, WITH_ALERT) == 0
    shown = capsys.readouterr().out
    assert "alert slow of per_page: when mean > 5 AND n > 1, until mean < 3, for on_time, final windows" in shown


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("mean > 5 AND", "average > 5 AND", "when 'average > 5 AND n > 1'"),
        ("mean > 5 AND n > 1", "mean +", "when 'mean +'"),
        ("mean > 5 AND n > 1", "mean + 1", "expected a condition"),
        ("mean < 3", "menu < 3", "clear 'menu < 3'"),
        ('when="mean > 5 AND n > 1"', "when=5", "when is 5; expected a condition as a text"),
        ("{page}", "{pgae}", "view 'per_page' has no column 'pgae'; columns: page"),
        ("{page}", "{page", "write {{ for a brace"),
        ("{page}", "{page!r}", "{page} takes a format alone"),
        ("{page}", "{page.__class__}", "no column 'page.__class__'"),
        ("{page}", "{page:.1%}", "{page:.1%} of type string"),
        ("{page}", "{n:c}", "{n:c} of type int64"),
        ('("on_time", "final")', '("done",)', "states has 'done'; labels of windows: open, on_time, final"),
        ('("on_time", "final")', '"final"', "states is 'final'; expected a tuple of labels"),
        ("Alert(per_page", "Alert(ever", "rows of view 'ever' are of all time, so they stay open; leave states out"),
        ('clear="mean < 3"', "hold=5", "hold is 5; expected a length of time"),
        ('clear="mean < 3"', 'name="a b"', "invalid name"),
        ("slow = Alert(per_page", 'slow = Alert(View(source=hits, measures={"n": count()})', "its view is not in VIEWS"),
    ],
)
def test_check_refuses_it_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, sentence: str
) -> None:
    assert old in ALERT
    assert check(tmp_path, WITH_ALERT.replace(ALERT, ALERT.replace(old, new))) == 1
    printed = capsys.readouterr().err
    assert sentence in printed
    assert "definitions.py:" in printed or "alert 'slow'" in printed
    assert len(printed.strip().splitlines()) == 1
