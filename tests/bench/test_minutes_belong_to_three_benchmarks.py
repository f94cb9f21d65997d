"""`--minutes` bounds a soak, a comparison with peers or the measurements of scale, and is refused elsewhere."""

import pytest

from tandem.cli.command_line import run


@pytest.mark.parametrize("words", [["growth", "--minutes", "3"], ["soak", "--quick", "--minutes", "3"]])
def test_minutes_are_refused_where_they_mean_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *words]) == 1
    assert "--minutes needs WHAT to be soak, peers or scale" in capsys.readouterr().err
