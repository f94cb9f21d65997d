"""Expressions of `adopt --map` that contradict each other, or are none, are refused before anything is read."""

from pathlib import Path

import pytest

from tandem.cli.__main__ import main


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
