"""What a command prints into a pipe or a file has every value whole, however wide its tables are."""

import pytest
from rich.console import Group
from rich.table import Table

from tandem.cli.command.text_tables import console

VALUES = [f"{number},000,000" for number in range(40)]


def test_a_wide_table_is_not_cut_where_no_terminal_bounds_it(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table(title="wide")
    for value in VALUES:
        table.add_column(f"a column of {value}")
    table.add_row(*VALUES)
    console().print(Group(table, "a line " * 40))
    lines = capsys.readouterr().out.splitlines()
    (row,) = (line for line in lines if VALUES[0] in line and "column" not in line)
    assert [cell.strip() for cell in row.strip("│").split("│")] == VALUES
    assert ("a line " * 40).rstrip() in [line.rstrip() for line in lines]
    assert max(map(len, lines)) == len(row), "nothing is as wide as the bound"
