"""The streams of `bench together`: what is right is what plain loops say, and the definitions are valid."""

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tandem.bench.together.an_hour import ten_minutes
from tandem.bench.together.answering import TogetherRun
from tandem.bench.together.questions import COST, COSTS, LOOKED_UP, PARTS, PRICED, QUESTIONS, RATE, WAIT, TogetherQuestion
from tandem.bench.together.report import ratios
from tandem.bench.together.streams import (
    ACTS,
    BIDS,
    CLICKS,
    SEEN,
    WINDOW_MS,
    WITHIN_MS,
    Answers,
    Streams,
    at_the_end,
    generate,
    truth,
    values,
)
from tandem.views.project.project import load

SHAPE = Streams(3_000, 40, datetime(2026, 11, 1, tzinfo=UTC))
STREAMS = generate(SHAPE)
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


@pytest.mark.parametrize("question", [*QUESTIONS, PARTS, LOOKED_UP, PRICED], ids=lambda question: question.name)
def test_the_definitions_are_valid(tmp_path: Path, question: TogetherQuestion) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(question.definitions)
    assert {source.topic for source in load(tmp_path).sources.values()} == {topic + question.suffix for topic in question.topics}


def test_ten_minutes_of_a_log_end_before_the_newest_event_of_the_next() -> None:
    began = int(SHAPE.base.timestamp() * 1000)
    parts = [ten_minutes(STREAMS[SEEN], began, number)["at"].to_pylist() for number in range(6)]
    assert [at for part in parts for at in part] == STREAMS[SEEN]["at"].to_pylist()
    assert [max(part) < began + 600_000 * (number + 1) for number, part in enumerate(parts[:5])] == [True] * 5


def test_an_answer_is_whole_once_it_has_the_end_of_each_topic() -> None:
    whole = truth(RATE.truth, STREAMS)
    assert at_the_end(whole, RATE.counts)
    of_clicks_alone: Answers = {row: (0, clicked) for row, (_, clicked) in whole.items()}
    assert not at_the_end(of_clicks_alone, RATE.counts)


def test_a_cost_compares_the_runs_of_a_turn() -> None:
    def run(question: TogetherQuestion, turn: int, cpu_s: float | None) -> TogetherRun:
        return TogetherRun("tandem", question.name, turn, 10, 1, cpu_s=cpu_s)

    runs = [run(RATE, 0, 50.0), run(RATE, 1, 9.0), run(PARTS, 1, 10.0), run(PARTS, 2, 4.0), run(RATE, 2, 3.0)]
    assert ratios(COSTS[0], runs) == [0.9, 0.75]
    assert ratios(COSTS[0], [run(RATE, 1, None), run(PARTS, 1, 10.0)]) == []
