"""A view that keeps windows for some time answers the same in every layer, and no late event brings a window back."""

import random
from datetime import timedelta
from typing import Any

import pytest

from tandem.batch.recompute.plan import BadRequest, RecomputeRequest
from tandem.batch.verify.oracle_sample import sampled
from tandem.ledger.publish.releases import Releases
from tandem.serving.connection import Connection
from tandem.serving.memory.store import Store
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.views.project.project import load_files
from tests.samples import LONGER
from tests.speed.sales import START, answered, project_files, sale
from tests.speed.test_in_one_process import Layer, layer

__all__ = ["layer"]

KEEP = timedelta(minutes=5)


@pytest.fixture
def keeping(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> Layer:
    files = project_files(layer.topic.topic.name)
    text = files["definitions.py"].replace(b'"sum": total("amount")}', b'"sum": total("amount")}, keep=timedelta(minutes=5)')
    monkeypatch.setattr(Layer, "files", {**files, "definitions.py": text})
    return layer


def expected(sold: dict[int, int], newest: int | None) -> dict[tuple[str, str], tuple[int, int]]:
    """The sales at these seconds by minute, of the minutes that end after the newest below the cut less KEEP."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for number, second in sold.items():
        minute = second // 60
        if newest is None or (minute + 1) * 60 > newest - KEEP.total_seconds():
            key = ((START + timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%SZ"), "a")
            n, total = found.get(key, (0, 0))
            found[key] = (n + 1, total + number)
    return found


def rows_by_minute(rows: Any) -> dict[tuple[str, str], tuple[int, int]]:
    return {(row["window_start"], row["shop"]): (row["n"], row["sum"]) for row in rows}


@pytest.mark.parametrize("seed", range(30 if LONGER else 1))
def test_at_every_cut_windows_that_left_stay_away_in_all_layers(keeping: Layer, seed: int) -> None:
    """Sales of any minute come at any time, also of windows that left; the cut alone decides which have left."""
    dice, sold, newest = random.Random(seed), dict[int, int](), None
    keeping.start()
    connection = Connection(Store(keeping.tables, 1))
    published: dict[int, dict[tuple[str, str], tuple[int, int]]] = {}
    for step in range(10):
        for number in range(len(sold), len(sold) + dice.randrange(1, 12)):
            sold[number] = max(0, dice.randrange(step * 100 + 60) - dice.choice((0, 0, 300)))
            keeping.topic.append([sale(number, seconds=sold[number], amount=number)], partition=dice.choice((0, 2)))
        keeping.drain()
        assert answered(keeping.settings) == expected(sold, newest), "merged"
        assert held(connection) == expected(sold, newest), "in memory"
        if dice.random() < 0.6 or step == 9:
            keeping.archive()
            live = keeping.recompute(RecomputeRequest(mode=dice.choice(("auto", "full"))))
            newest = max(sold.values())
            assert answered(keeping.settings) == expected(sold, newest), "batch"
            published[live.number] = expected(sold, newest)
    for number, rows in published.items():
        assert at_publication(keeping, number) == rows, "an earlier publication has the windows that it had"
    live = keeping.recompute(RecomputeRequest(keep_cut=True))
    assert answered(keeping.settings) == expected(sold, newest)
    release = Releases(keeping.tables).load(live.release)
    project = load_files(release.files)
    compared = sampled(
        keeping.tables, live, release, project.sources["sales"], {"per_minute": project.views["per_minute"]}, keys=5
    )
    assert [each.differ for each in compared] == [0]


def at_publication(layer: Layer, number: int) -> dict[tuple[str, str], tuple[int, int]]:
    return rows_by_minute(given(Reader(layer.tables, number).answer("per_minute", layer="batch")).rows())


def held(connection: Connection) -> dict[tuple[str, str], tuple[int, int]]:
    """What a connection answers that has had the view in memory since before the last publications."""
    connection.refresh()
    return rows_by_minute(connection.view("per_minute").scan().rows())


@pytest.mark.slow
def test_recomputes_free_what_left_and_a_rebuild_of_it_is_refused(keeping: Layer) -> None:
    keeping.start()
    for step in range(12):
        keeping.topic.append([sale(step * 10 + n, seconds=step * 120 + n, amount=1) for n in range(3)])
        keeping.drain()
        keeping.archive()
        live = keeping.recompute()
        view = live.views["per_minute"]
        assert view.first_window == START + timedelta(minutes=max(-5, step * 2 - 5))
        assert view.rows <= 6, "the rows of at most the kept windows and of a quarter more"
    assert len(view.parts) < 5
    at = START + timedelta(minutes=2)
    with pytest.raises(BadRequest, match="have left view 'per_minute'"):
        keeping.recompute(RecomputeRequest(windows=(at, at + timedelta(minutes=1)), views=("per_minute",)))
