"""A source that keeps records for some time: no answer of any layer changes when maintain removes them."""

import random
from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from tandem.batch.maintain import maintain
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.infra.settings import KeepSettings
from tandem.ledger.files.file_ranges import RECORDS, table_ranges
from tandem.ledger.log.erasures import Erasures
from tests.samples import LONGER
from tests.speed.sales import START, answered, project_files, sale
from tests.speed.test_in_one_process import Layer, layer
from tests.speed.test_windows_that_leave import expected

__all__ = ["layer"]


@pytest.fixture
def expiring(layer: Layer, monkeypatch: pytest.MonkeyPatch) -> Layer:
    files = project_files(layer.topic.topic.name)
    text = (
        files["definitions.py"]
        .partition(b"per_shop")[0]
        .replace(b'identity=("id",)', b'identity=("id",), keep=timedelta(minutes=2)')
    )
    text = text.replace(b'"sum": total("amount")}', b'"sum": total("amount")}, keep=timedelta(minutes=5)')
    monkeypatch.setattr(Layer, "files", {**files, "definitions.py": text})
    keep = KeepSettings(publications=1, days=0, release_days=0, file_hours=0)
    layer.settings = msgspec.structs.replace(layer.settings, keep=keep)
    return layer


@pytest.mark.parametrize("seed", range(30 if LONGER else 1))
def test_answers_are_the_same_without_expired_records(expiring: Layer, seed: int) -> None:
    """Sales of any minute come at any time, and copies of any sale, also of those that are gone."""
    shop, dice, sold, newest = expiring, random.Random(seed), dict[int, int](), None
    shop.start()
    for step in range(7):
        at = START + timedelta(seconds=step * 160 + 60)
        for number in range(len(sold), len(sold) + dice.randrange(1, 12)):
            sold[number] = max(0, dice.randrange(step * 160 + 60) - dice.choice((0, 0, 0, 300)))
            shop.topic.append([sale(number, seconds=sold[number], amount=number)], partition=dice.choice((0, 2)), at=at)
        for number in dice.sample(sorted(sold), min(3, len(sold))):
            shop.topic.append([sale(number, seconds=sold[number], amount=number), b"{"], partition=dice.choice((0, 2)), at=at)
        shop.topic.skip(dice.choice((0, 2)))
        shop.drain()
        shop.archive()
        requests = (RecomputeRequest(), RecomputeRequest(mode="full"), RecomputeRequest(mode="full", raw=True))
        live = shop.recompute(dice.choice(requests))
        newest = max(sold.values())
        assert answered(shop.settings) == expected(sold, newest)
        assert live.counts["sales"].offsets == sum(len(rows) for rows in shop.topic.rows.values())
        if step % 3 == 0:
            maintain.run(shop.settings, now=lambda: datetime.now(UTC), say=lambda _: None)
            shop.recompute(RecomputeRequest(keep_cut=True))
            assert answered(shop.settings) == expected(sold, newest)
    gone = Erasures(shop.tables).ranges("sales").length
    left = sum(file.rows for file in table_ranges(shop.tables, shop.tables.archive("sales"), RECORDS))
    assert gone
    assert left + gone <= sum(len(rows) for rows in shop.topic.rows.values())
