"""Of sources that read one topic, no more than all of them have counted."""

from datetime import datetime

import pytest

from tandem import Event, Source
from tandem.ledger.log.positions import Position
from tandem.ledger.united_positions import plain, unite
from tandem.views.source.united_source import unite as both


class Ping(Event):
    at: datetime


FIRST, SECOND = (Source(name=name, topic="pings", event=Ping, event_time="at") for name in ("first", "second"))


@pytest.mark.parametrize(("second", "least"), [({("t", 0): 3}, 3), ({("t", 0): 9}, 5), ({}, 0), ({("earlier", 0): 9}, 5)])
def test_of_one_topic_the_least_of_its_sources_is_counted(second: dict[tuple[str, int], int], least: int) -> None:
    """One that has counted nothing holds it at the start; one that reads an earlier topic of the name does not hold it."""
    position = unite({"first": Position.of({("t", 0): 5}), "second": Position.of(second)})
    assert plain(position, both((FIRST, SECOND))).get(("t", 0), 0) == least
