"""A view that a server's memory has no room for is asked over HTTP, and what a look-up reads is counted."""

from pathlib import Path

import pytest

from tandem.bench.serving import large


@pytest.mark.slow
def test_a_cold_look_up_is_one_row_group_and_every_answer_is_right(tmp_path: Path) -> None:
    found = large.measure(tmp_path / "large", 40_000, lambda _: None)
    assert found.right
    assert (found.reads.row_groups, found.reads.requests) == (1, 2)
    assert found.peak_bytes > 0
    assert "every answer was right" in "\n".join(found.lines())
