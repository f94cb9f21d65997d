"""The benchmark of limits sends the same requests to both servers alternately, and prints both rates."""

from pathlib import Path

from tandem.bench.serving import limits
from tandem.bench.serving.limits import Rates, Scale


def test_both_servers_get_requests_over_one_connection_and_over_several(tmp_path: Path) -> None:
    said: list[str] = []
    found = list(limits.measure(tmp_path / "project", Scale(300, 2, 0.2), said.append))
    assert [one.connections for one in found] == [1, 8]
    assert all(len(rates) == 2 and min(rates) > 0 for one in found for rates in (one.with_bounds, one.without))
    assert len(said) == 2
    assert limits.table(found).row_count == 2
    assert [one["connections"] for one in limits.document(found)["rates"]] == [1, 8]


def test_the_ratio_is_taken_turn_by_turn() -> None:
    assert Rates(1, (90.0, 50.0, 200.0), (100.0, 100.0, 100.0)).ratio == 0.9
