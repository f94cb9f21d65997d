"""The benchmark of questions asks a real published view, of both sides the same, and notices when they do not agree."""

from dataclasses import replace
from pathlib import Path

from bench.serving import measuring, report
from bench.serving.measuring import ByDuckDB, InProcess, Scale


def test_both_sides_answer_the_same_questions_and_all_figures_are_there(tmp_path: Path) -> None:
    said: list[str] = []
    found = list(measuring.measure(tmp_path, Scale((300, 600), rows=40, lookups=2, duckdb=3), said.append))
    document = report.document(found)
    assert document["agree"]
    assert [type(one) for one in found] == [ByDuckDB, InProcess] * 2
    assert min(one.sums[1] for one in found) > 0
    assert set(document["times"]) == {"300", "600"}
    assert set(document["growth"]) == {"row", "lookup"}
    assert len(list(report.tables(found))) == 3
    assert len(said) == 6
    assert not report.agree([replace(one, sums=(1, 2)) if isinstance(one, ByDuckDB) else one for one in found])
