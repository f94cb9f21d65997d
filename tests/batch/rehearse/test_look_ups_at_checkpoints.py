"""At each checkpoint a look-up finds the versions that the log had by then, as nested loops do."""

import json
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.rehearse.rehearse import rehearse
from tandem.batch.release.release_plan import Terms
from tandem.views.instant import time_of
from tests.batch.recompute.test_late_versions_are_looked_up_again import (
    LOOKING,
    START,
    VIEWS,
    by_nested_loops,
    record,
)
from tests.batch.rehearse.test_rehearsed_rows_are_what_nested_loops_give import answers, by_side
from tests.batch.shop import MemoryShop


def log_of(dice: Random, number: int) -> list[dict[str, Any]]:
    """Sales and prices, some prices late, some closing a shop."""
    log = []
    for each in range(number):
        hour, shop = each / 10 - (dice.randrange(50) / 10 if dice.random() < 0.4 else 0), dice.choice(["a", "b", None])
        kind = dice.choice(["price", "sale", "sale"])
        closed = kind == "price" and dice.random() < 0.2
        log.append({**record(kind, each, hour, shop, dice.randrange(1, 9), closed=closed), "place": (each,)})
    return log


def test_look_ups_at_each_checkpoint_find_the_versions_until_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory_shop, log = MemoryShop.of(tmp_path, monkeypatch), log_of(Random(5), 60)
    memory_shop.define(LOOKING)
    appended = [START + timedelta(minutes=10 * each) for each, _ in enumerate(log)]
    for each, at in zip(log, appended, strict=True):
        memory_shop.log.append([json.dumps({**each, "at": each["at"].isoformat()}).encode()], at=at)
    write_archive.run(memory_shop.run("archive"), memory_shop.project)
    recompute.run(memory_shop.run("recompute"), memory_shop.project)
    memory_shop.define(LOOKING.replace('count(filter="p IS NULL")', 'count(filter="p IS NULL"), "more": count()'))
    rehearsal = rehearse(
        memory_shop.run("rehearse"),
        memory_shop.project(),
        Terms(),
        answers,
        since=timedelta(hours=6),
        every=timedelta(hours=2),
        views=VIEWS,
    )
    assert [rehearsal.views[name].status for name in VIEWS] == ["changed", *["unchanged"] * (len(VIEWS) - 1)]
    rows, compared = by_side(rehearsal), 0
    for number, time in enumerate(rehearsal.checkpoints):
        there = [each for each, at in zip(log, appended, strict=True) if at <= time_of(time)]
        for name in VIEWS:
            wanted, _ = by_nested_loops(there, name)
            keys = ("shop",) if name in ("hourly", "ever") else ()
            for (view, _, checkpoint), some in rows.items():
                if (view, checkpoint) == (name, number):
                    got = {(*(row[key] for key in keys), row["window_start"]): row for row in some}
                    assert {key: {of: row[of] for of in wanted[key]} for key, row in got.items()} == wanted, (name, number)
                    compared += len(wanted)
    assert compared > 200
