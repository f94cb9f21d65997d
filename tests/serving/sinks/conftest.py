"""The world whose views go out."""

from pathlib import Path

import pytest

from tests.serving.world import World, hit


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Two hits of a page, and one of none, in one micro-batch."""
    made = World(tmp_path)
    made.append(0, hit("/a", 1), hit(None, 2), hit("/a", 3))
    made.trigger()
    return made
