"""Commands that do little are measured beside an empty Python and beside the libraries that they need."""

from pathlib import Path

import pytest

from tandem.bench import start_up


@pytest.mark.slow
def test_every_command_is_compared_with_an_empty_python(tmp_path: Path) -> None:
    found = start_up.measured(tmp_path, 1)
    assert list(found) == list(start_up.commands(tmp_path))
    assert all(one.value > 0 for one in found.values())
    assert len(start_up.lines(found)) == len(found)
