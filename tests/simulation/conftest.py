"""What surrounds simulated processes."""

from collections.abc import Iterator

import pytest

from tests.simulation.world import surroundings


@pytest.fixture
def surrounded() -> Iterator[None]:
    """In place of the world outside, what the schedule decides."""
    with surroundings():
        yield
