"""Freshness is the time from the log to the answer; an idle log changes nothing."""

from tandem.cli.demo.once import Freshness
from tandem.ledger.log.positions import LOG_START, Position


def at(*offsets: int) -> Position:
    return Position.of({("t", partition): offset for partition, offset in enumerate(offsets)})


def test_an_end_of_the_log_is_counted_once_every_partition_is() -> None:
    freshness = Freshness()
    freshness.look(10.0, at(5, 5), LOG_START)
    freshness.look(11.0, at(9, 5), at(5, 4))
    freshness.look(12.0, at(9, 5), at(8, 5))
    assert freshness.seconds == [2.0]
    freshness.look(15.0, at(9, 5), at(9, 5))
    assert freshness.seconds == [2.0, 4.0]


def test_an_idle_log_adds_nothing() -> None:
    freshness = Freshness()
    for now in range(100):
        freshness.look(float(now), at(5), at(5))
    assert freshness.seconds == [0.0]
    assert freshness.to_json() == {"p50": None, "p99": None, "samples": 1}
