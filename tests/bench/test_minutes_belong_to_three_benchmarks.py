"""`--minutes` bounds a soak or a comparison with peers, and is refused elsewhere."""

import pytest

from cli.command_line import run


@pytest.mark.parametrize("words", [["scale", "--minutes", "3"], ["soak", "--quick", "--minutes", "3"]])
def test_minutes_are_refused_where_they_mean_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *words]) == 1
    assert "--minutes needs WHAT to be soak or peers" in capsys.readouterr().err
