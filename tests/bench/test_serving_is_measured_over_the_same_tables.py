"""The benchmark sends the same questions over real published views to all sides, and notices a difference."""

from dataclasses import replace
from pathlib import Path

import pytest

from tandem.bench.serving import growing, measuring, report
from tandem.bench.serving.keep_busy import BusyLoad
from tandem.bench.serving.measuring import ByDuckDB, InProcess
from tandem.bench.serving.over_http import OverHTTP
from tandem.bench.serving.questions import ServingScale
from tandem.bench.serving.rates import Rates, Turn
from tandem.bench.serving.report import Goal


@pytest.mark.slow
def test_all_sides_answer_the_same_questions_and_all_figures_are_there(tmp_path: Path) -> None:
    said: list[str] = []
    scale = ServingScale((300, 600), rows=40, lookups=3, duckdb=3, commits=3)
    found = list(measuring.measure(tmp_path, scale, said.append))
    growth = growing.measure(tmp_path, scale, said.append)
    turns = tuple(Turn(BusyLoad(100.0 * n, 0.01, 0.02 * n), 1e-4 / n) for n in (1, 2, 3))
    looked_up = Rates(turns[:1], turns[1:2], turns[:2], turns[1:])
    document = report.document(found, growth, looked_up)
    assert document["agree"]
    assert [type(one) for one in found] == [ByDuckDB, ByDuckDB, InProcess, OverHTTP] * 2
    assert min(one.sums[1] for one in found) > 0
    assert [one.by for one in found][:2] == ["DuckDB", "DuckDB in memory"]
    assert [one.commits for one in found if isinstance(one, OverHTTP)] == [3, 3]
    assert set(document["times"]) == {"300", "600"}
    assert set(document["growth"]) == {"row", "lookup", "row_over_http", "lookup_over_http"}
    assert min(document["growth"].values()) > 0
    assert len(document["goals"]) == 11
    assert (document["rates"]["ratio"], document["rates"]["cpu_ratio"]) == (0.5, 0.5)
    assert len(list(report.tables(found, growth, looked_up))) == 4
    assert len(said) == 11
    assert not report.agree([replace(one, sums=(1, 2)) if isinstance(one, ByDuckDB) else one for one in found])


def test_a_goal_is_met_on_the_right_side() -> None:
    assert Goal("x", 3, at_least=3).met
    assert not Goal("x", 2.9, at_least=3).met
    assert Goal("x", 1.3, at_most=1.3).met
    assert not Goal("x", 1.4, at_most=1.3).met
