"""Each option belongs to its benchmarks, and is refused elsewhere."""

import pytest

from tandem.cli.command_line import run


@pytest.mark.parametrize("words", [["growth", "--minutes", "3"], ["soak", "--quick", "--minutes", "3"]])
def test_minutes_are_refused_where_they_mean_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", *words]) == 1
    assert "--minutes needs WHAT to be soak, peers, sinks or scale" in capsys.readouterr().err


def test_a_number_of_keys_is_one_of_serving(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "growth", "--keys", "5"]) == 1
    assert "--keys needs WHAT to be serving" in capsys.readouterr().err


def test_another_checkout_is_compared_in_decoding_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "growth", "--beside", "."]) == 1
    assert "--beside needs WHAT to be decode" in capsys.readouterr().err
