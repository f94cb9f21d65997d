"""Expressions of `adopt --map` that contradict each other, or are none, are refused before anything is read."""

from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.cli.log.adopt import coordinates_of


@pytest.mark.parametrize(
    ("texts", "refusal"),
    [
        (["id=a", "cents=1", "id=b"], "--map gives field 'id' two expressions: 'a' and 'b'; keep one"),
        (["id=a", "id=a"], "--map gives field 'id' two expressions: 'a' and 'a'; keep one"),
        (["id"], "invalid --map 'id'; expected FIELD=EXPRESSION"),
        (["id= "], "invalid --map 'id= '; expected FIELD=EXPRESSION"),
    ],
)
def test_a_field_has_one_expression(tmp_path: Path, capsys: pytest.CaptureFixture[str], texts: list[str], refusal: str) -> None:
    options = [part for text in texts for part in ("--map", text)]
    assert main(["adopt", "sales", "--from", str(tmp_path), *options, "--project", str(tmp_path)]) == 1
    assert refusal in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("topic,partition,offset", ("topic", "partition", "offset")),
        (" 'a,b' , `x,y`, get_json_object(m, '$.o') ", ("'a,b'", "`x,y`", "get_json_object(m, '$.o')")),
    ],
)
def test_coordinates_are_three_expressions(text: str, parts: tuple[str, str, str]) -> None:
    assert coordinates_of(text) == parts


@pytest.mark.parametrize(
    "text", ["", "topic,partition", "topic,partition,offset,offset", "topic,,offset", "f(topic,partition,o)"]
)
def test_other_numbers_of_coordinates_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str) -> None:
    assert main(["adopt", "sales", "--from", str(tmp_path), "--coordinates", text, "--project", str(tmp_path)]) == 1
    assert f"invalid --coordinates {text!r}; expected three columns" in capsys.readouterr().err
