"""The benchmark of recomputes folds the events that it wrote, old and new."""

import os
from pathlib import Path

import pytest

from tandem.bench.evolve import recomputing


@pytest.mark.slow
@pytest.mark.spark
def test_both_recomputes_reach_the_archives_end(tmp_path: Path) -> None:
    found = recomputing.measure(tmp_path, 24_000, cores=2, memory="1g", environ=os.environ, say=lambda _: None)
    assert (found.events, found.new, found.equal) == (24_000, 1_000, True)
