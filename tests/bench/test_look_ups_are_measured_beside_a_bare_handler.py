"""The benchmark of rates sends the same requests to `tandem serve` and to a bare handler of the same bytes, by turns."""

from pathlib import Path

import pytest

from tandem.bench.serving import rates
from tandem.bench.serving.keep_busy import BusyLoad, keep_busy, requests
from tandem.bench.serving.published import VIEW, page, publish
from tandem.bench.serving.rates import Rates, RatesScale, Turn
from tandem.bench.serving.served import server
from tandem.views.errors import TandemError


@pytest.mark.slow
def test_both_servers_are_asked_by_turns_and_once_more_while_others_commit(tmp_path: Path) -> None:
    said: list[str] = []
    found = rates.measure(tmp_path / "project", RatesScale(300, 2, 0.3), said.append)
    assert [len(turns) for turns in (found.served, found.bare, found.quiet, found.committing)] == [2, 2, 1, 1]
    assert all(turn.load.rate > 0 and turn.load.p50 <= turn.load.p99 for turn in (*found.served, *found.bare, *found.committing))
    assert len(said) == 1
    assert rates.table(found).row_count == 4
    assert set(rates.document(found)) == {"served", "bare", "quiet", "committing", "ratio", "cpu_ratio", "p99_ratio"}


def test_ratios_are_taken_turn_by_turn() -> None:
    def turn(rate: float, p99: float = 0.01, cpu: float = 1e-4) -> Turn:
        return Turn(BusyLoad(rate, 0.001, p99), cpu)

    found = Rates((turn(60), turn(90)), (turn(100, cpu=5e-5), turn(100, cpu=1e-4)), (turn(9, 0.01),), (turn(9, 0.03),))
    assert (found.ratio, found.cpu_ratio, round(found.p99_ratio, 9)) == (0.75, 0.75, 3.0)


def test_an_answer_that_is_none_ends_the_load(tmp_path: Path) -> None:
    publish(tmp_path / "project", 10)
    with server(tmp_path / "project") as (_, client):
        path = f"/views/{VIEW}/row?key.page={page(3)}"
        assert keep_busy(client.address, requests(client.address, client.secret, [path]), 3, 0.1).rate > 0
        with pytest.raises(TandemError, match="401"):
            keep_busy(client.address, requests(client.address, "tandem_guessed", [path]), 3, 0.1)
