"""1 % of the events are duplicates, 2 % are late, and the truth counts each event once."""

import json
from datetime import UTC, datetime

import pytest

from tandem.bench.peers.events import Shape, differing, generate, truth, values
from tests.bench.peers import oracle

SHAPE = Shape(events=20_000, pages=50, base=datetime(2026, 11, 1, 8, tzinfo=UTC))


def test_events_of_equal_shapes_are_equal() -> None:
    assert generate(SHAPE).equals(generate(SHAPE))


def test_one_in_a_hundred_is_a_duplicate_byte_for_byte() -> None:
    sent = [value for _, value in values(generate(SHAPE))]
    ids = [json.loads(value)["id"] for value in sent]
    assert len(set(ids)) == len(set(sent))
    assert (len(ids) - len(set(ids))) / len(ids) == pytest.approx(0.01, rel=0.25)


def test_two_in_a_hundred_are_late() -> None:
    at = [round(value.timestamp() * 1000) for value in generate(SHAPE).column("at").to_pylist()]
    start = int(SHAPE.base.timestamp() * 1000)
    # An event of position i has the time i, less at most 3 s of jitter; duplicates have the time of an earlier position.
    late = sum(value < start - 3_000 for value in at)
    assert late / len(at) == pytest.approx(0.02, rel=0.2)


def test_the_truth_is_that_of_plain_python() -> None:
    events = generate(SHAPE)
    expected = oracle.view(value for _, value in values(events))
    assert truth(events) == expected
    assert all(key.decode() == json.loads(value)["path"] for key, value in values(events))


def test_a_wrong_a_missing_and_an_additional_row_differ() -> None:
    right = {("a", 0): (1, 1, 1.0), ("b", 0): (2, 2, 2.0)}
    assert differing(right, right) == 0
    assert differing(right, {("a", 0): (1, 1, 1.5), ("c", 0): (1, 1, 1.0)}) == 3
