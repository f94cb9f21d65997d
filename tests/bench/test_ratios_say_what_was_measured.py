"""The report's arithmetic: ratios per round, medians and spread over rounds, and no figure without a measurement."""

from bench.stock import report
from bench.stock.measuring import Run
from bench.stock.recomputing import Recompute


def run(system: str, number: int, fresh: float, **more: object) -> Run:
    return Run(system, 6, number, freshness=[fresh] * 10, rows=5, differ=0, **more)  # type: ignore[arg-type]


def ratio(runs: list[Run | Recompute], figure: str, against: str) -> dict[str, object]:
    (found,) = [r for r in report.ratios(runs) if r["figure"] == figure and r["against"] == against]
    return found


def test_ratios_are_taken_within_a_round() -> None:
    runs = [run("tandem", 0, 1.0), run("tandem", 1, 2.0), run("tandem", 2, 1.0)]
    runs += [run("expert", 0, 2.0), run("expert", 1, 20.0), run("expert", 2, 3.0)]
    expected = {"figure": "freshness p50, s", "views": 6, "against": "expert", "n": 3, "median": 3.0, "worst": 2.0, "best": 10.0}
    assert ratio(list(runs), "freshness p50, s", "expert") == expected


def test_more_events_a_second_are_better() -> None:
    runs = [Run("tandem", 6, 0, backlog_per_s=300.0), Run("tuned", 6, 0, backlog_per_s=100.0)]
    assert ratio(list(runs), "events/s, draining a backlog", "tuned")["median"] == 3.0


def test_recomputes_are_compared_by_what_each_reads() -> None:
    runs = [Recompute("tandem", 0, 10.0, 90.0), Recompute("stock", 0, 20.0, 60.0)]
    assert ratio(list(runs), "events/s recomputed from the raw log", "stock")["median"] == 0.5
    assert ratio(list(runs), "events/s, Tandem from the events table, others from the raw log", "stock")["median"] == 4.5


def test_a_missing_measurement_gives_no_figure() -> None:
    slow = Run("textbook", 6, 0, freshness=[9.0] * 40, overdue=60, problem="the backlog not within 300 s")
    assert slow.p50 is None
    assert Run("textbook", 6, 0, freshness=[9.0] * 90, overdue=10).p50 == 9.0
    found = ratio([run("tandem", 0, 1.0), slow], "freshness p50, s", "textbook")
    assert found == {"figure": "freshness p50, s", "views": 6, "against": "textbook", "n": 0}
    assert "60 of 100 markers were not counted in time" in " ".join(report.problems([slow]))


def test_agreement_needs_answers_and_no_difference() -> None:
    good = run("tandem", 0, 1.0)
    assert report.document([good], {}, 1)["agree"]
    assert not report.document([], {}, 1)["agree"]
    assert not report.document([good, Run("tuned", 6, 0, rows=5, differ=1)], {}, 1)["agree"]
