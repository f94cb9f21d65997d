"""The streams of `bench together`: what is right is what plain loops say, and the definitions are valid."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tandem.bench.together.questions import COST, QUESTIONS, RATE, WAIT, TogetherQuestion
from tandem.bench.together.streams import ACTS, BIDS, CLICKS, SEEN, WINDOW_MS, WITHIN_MS, Streams, generate, truth, values
from tandem.views.project.project import load

STREAMS = generate(Streams(3_000, 40, datetime(2026, 11, 1, tzinfo=UTC)))
EVENTS = {topic: [event for event in table.to_pylist() if event["ad"].startswith("ad")] for topic, table in STREAMS.items()}


def hour(event: dict[str, int]) -> int:
    return event["at"] // WINDOW_MS * WINDOW_MS


def without_ends(question: TogetherQuestion) -> dict[tuple[str, int], tuple[int, ...]]:
    return {row: measures for row, measures in truth(question.truth, STREAMS).items() if row[0].startswith("ad")}


def test_rates_are_those_of_two_loops() -> None:
    shown, clicked = (Counter((event["ad"], hour(event)) for event in EVENTS[topic]) for topic in (SEEN, CLICKS))
    assert without_ends(RATE) == {row: (shown[row], clicked[row]) for row in shown | clicked}


def test_costs_are_those_of_nested_loops() -> None:
    costs = Counter[tuple[str, int]]()
    for click in EVENTS[CLICKS]:
        bids = [(bid["at"], number, bid["price"]) for number, bid in enumerate(EVENTS[BIDS]) if bid["ad"] == click["ad"]]
        costs[click["ad"], hour(click)] += max(bid for bid in bids if bid[0] <= click["at"])[2]
    assert {row: measures[1] for row, measures in without_ends(COST).items()} == costs


def test_pairs_are_those_of_nested_loops() -> None:
    pairs = Counter(
        (seen["ad"], hour(seen))
        for seen in EVENTS[SEEN]
        for click in EVENTS[CLICKS]
        if (seen["ad"], seen["user"]) == (click["ad"], click["user"])
        and seen["at"] < click["at"] <= seen["at"] + WITHIN_MS
        and hour(seen) == hour(click)
    )
    assert {row: measures[0] for row, measures in without_ends(WAIT).items()} == pairs
    assert len(EVENTS[ACTS]) == len(EVENTS[SEEN]) + len(EVENTS[CLICKS])


def test_a_share_of_the_events_is_later_than_watermarks_wait() -> None:
    newest, late = 0, 0
    for event in EVENTS[SEEN]:
        late += event["at"] < newest - 10_000
        newest = max(newest, event["at"])
    assert 0.01 < late / len(EVENTS[SEEN]) < 0.03
    assert len(list(values(STREAMS[SEEN]))) == STREAMS[SEEN].num_rows


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.name)
def test_the_definitions_are_valid(tmp_path: Path, question: TogetherQuestion) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(question.definitions)
    assert {source.topic for source in load(tmp_path).sources.values()} == set(question.topics)
