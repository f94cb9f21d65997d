"""Each quote of a CSV file that would make Spark read several rows as one text is found, and none that does not."""

from pathlib import Path

import pytest

from tandem.batch.adopt.csv_quotes import quote_fault


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ('id,note\n1,"a\nb"\n2,"c ""d"""\n3,5" pipe\n4,\n', None),
        ('id,note\r\n1,"a, b"\r\n2,"c"', None),
        ("id,note\n1," + "x" * 200_000 + "\n", None),
        ('\N{BYTE ORDER MARK}id,note\n1,"\N{OVERLINE}"\n', None),
        ("", None),
        ('id,note\n1,a\n2,"no end\n3,b\n', "lines 3 to 4"),
        ('id,note\n1,a\n2,"no end', "line 3"),
        ('id,note\n2,"no end\n3,b\n4,"c"\n5,d\n', "lines 2 to 4"),
        ('id,note\n1,"a" b\n2,c\n', "line 2"),
        ('id,note\n1,"' + "x\n" * 100_000, "lines 2 to 100001"),
    ],
)
def test_a_text_in_quotes_ends_before_a_comma_or_a_line_end(tmp_path: Path, text: str, lines: str | None) -> None:
    (tmp_path / "a.csv").write_text(text, newline="")
    assert quote_fault(tmp_path / "a.csv") == lines
