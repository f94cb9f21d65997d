"""The report's arithmetic: ratios within a round, above 1 if the contestant was better, and no figure without a measurement."""

from typing import Any

import pytest
from rich.table import Table

from tandem.bench.peers import report
from tandem.bench.peers.catch_up import CaughtUp
from tandem.bench.peers.freshness import Fresh
from tandem.bench.peers.running import Quiet


def run(contestant: str, number: int, seconds: float | None, **more: Any) -> CaughtUp:
    return CaughtUp(contestant, number, 1_000, seconds=seconds, **{"rows": 5, "differ": 0, **more})


def one(runs: list[CaughtUp], figure: str, contestant: str) -> dict[str, Any]:
    (found,) = [e for e in report.estimates(report.CATCH_UP, runs) if (e["figure"], e["contestant"]) == (figure, contestant)]
    return found


RUNS = [run("tandem", 0, 10.0), run("tandem", 1, 40.0), run("flink", 0, 5.0), run("flink", 1, 10.0), run("flink", 2, 10.0)]


def test_a_ratio_above_one_means_that_the_contestant_was_better() -> None:
    assert one(RUNS, "s to catch up", "flink")["ratio"] == {"value": 3.0, "low": 2.0, "high": 4.0, "confidence": 0.5, "n": 2}
    assert one(RUNS, "events/s", "flink")["ratio"]["value"] == 3.0
    assert one(RUNS, "events/s", "tandem")["ratio"] is None


def test_a_missing_measurement_gives_no_figure() -> None:
    runs = [run("tandem", 0, 10.0), run("flink", 0, None, differ=5, problem="not within 9 s")]
    assert {found["contestant"] for found in report.estimates(report.CATCH_UP, runs)} == {"tandem"}
    assert list(report.problems(runs)) == ["catch-up, flink, round 1: 5 of 5 rows differ from the truth; not within 9 s"]


@pytest.mark.parametrize(("differ", "agree"), [(0, True), (1, False), (None, False)])
def test_a_result_agrees_only_if_every_answer_was_right(differ: int | None, agree: bool) -> None:  # noqa: FBT001
    assert report.document([run("tandem", 0, 1.0, differ=differ)], [], {})["agree"] == agree
    assert not report.document([], [], {})["agree"]


def test_percentiles_are_of_the_markers_of_all_rounds() -> None:
    runs = [Fresh("flink", 0, [0.1] * 200), Fresh("flink", 1, [0.3] * 100, overdue=2), Fresh("tandem", 0, [0.2] * 300)]
    flink, tandem = report.delays(runs)
    assert (flink["p50"]["value"], flink["p50"]["n"], flink["overdue"]) == (0.1, 302, 2)
    assert flink["p99"] == {"value": 0.3, "low": 0.3, "high": None, "confidence": 0.9, "n": 302}
    assert tandem["p99"]["high"] == 0.2
    (lost,) = report.delays([Fresh("spark", 0, [0.1] * 9, overdue=91)])
    assert (lost["p50"]["value"], lost["p99"]["value"]) == (None, None)
    assert list(report.delays([Fresh("pathway", 0, problem="it ended")])) == []


def test_a_view_is_read_once_it_has_been_quiet_for_twice_its_longest_pause() -> None:
    versions: list[object] = [None, 1, 1, 2, 2, 2, 2, 3]
    quiet = Quiet(lambda: versions.pop(0), 0.0)
    assert [quiet.reached(at) for at in (0.0, 1.0, 3.0, 6.0, 15.0, 17.0, 18.0, 19.0)] == [
        *[False] * 5,  # nothing yet, first, quiet for 2 s, second after a pause of 5 s, quiet for 9 s of 10
        True,
        False,  # read already
        False,  # published again
    ]


def test_who_took_part_in_fewer_rounds_has_less_confidence() -> None:
    flink, tandem = one(RUNS, "s to catch up", "flink"), one(RUNS, "s to catch up", "tandem")
    assert ((flink["n"], flink["confidence"]), (tandem["n"], tandem["confidence"])) == ((3, 0.75), (2, 0.5))
    titled = [shown for shown in report.tables(RUNS, [], {}) if isinstance(shown, Table)]
    columns = {str(column.header): list(column.cells) for column in titled[0].columns}
    rows = list(zip(columns["contestant"], columns["rounds"], columns["confidence"], strict=True))
    assert set(rows) == {("flink", "3", "75%"), ("tandem", "2", "50%")}
