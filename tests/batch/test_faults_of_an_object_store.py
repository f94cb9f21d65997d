"""A request to the object store fails, or its answer is lost: nothing is lost, nothing counts twice, every answer is exact.

A command ends well or says in a sentence what failed. It is typed again then, as documentation asks.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from batch.archive import archive
from batch.recompute import recompute
from batch.release import apply
from batch.release.build_release import Terms
from infra import kafka
from infra.settings import Settings, Storage
from ledger.log import archive_runs as archived
from ledger.publish import promotion
from tests import one_process
from tests.batch.release.test_apply import CHANGED
from tests.batch.shop import DEFINITIONS, answers, assert_true, records, rows_of, together, truth
from tests.batch.test_in_one_process import MemoryShop
from tests.infra.storage.s3 import FAULTS, Faults, a_bucket
from views.errors import TandemError

T = TypeVar("T")
WRITES = ("PUT", "POST", "DELETE")
READS = ("GET", "HEAD")
EVERY = 170
"""No run has more requests that write."""


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[Faults, str, Mapping[str, str], Any]]:
    faults = Faults()
    with a_bucket(faults) as (url, options):
        yield faults, url, options, count()


def typed_again(command: Callable[[], T]) -> T:
    """The result of a command that may end in a sentence once."""
    try:
        return command()
    except TandemError:
        return command()


def run(shop: MemoryShop) -> None:
    """Archive and recompute twice, and release changed definitions, while events come."""
    logs = [records(71, 40), records(72, 25)]
    for number in (1, 2):
        shop.sell(logs[number - 1])
        typed_again(lambda: archive.run(shop.run("archive"), shop.project))
        live = typed_again(lambda: recompute.run(shop.run("recompute"), shop.project)).publication
        assert_true(shop, live, together(*logs[:number]))
    every = together(*logs)
    copied = rows_of(shop, shop.tables.archive("sales"))
    assert copied.num_rows == sum(map(len, every.values()))
    assert [run.number for run in archived.runs(shop.tables, "sales")] == [1, 2]
    shop.define(CHANGED)
    typed_again(lambda: apply.run(shop.run("apply"), shop.project, Terms(max_lag=0)))
    live = typed_again(lambda: promotion.promote(shop.tables, None, days=7, max_lag=0, by="test", at=datetime.now(UTC)))
    assert live.release == 2
    assert sum(row["n"] for row in answers(shop, live, "refunds")) == truth(every, below=-10).refunds


def injured(bucket: Any, folder: Path, patch: pytest.MonkeyPatch, plan: tuple[str, int, tuple[str, ...]]) -> bool:
    """Run with one fault, at a request of some methods; whether it came to it."""
    faults, url, options, numbers = bucket
    broker = one_process.MemoryBroker()
    broker.stand_in(patch)
    log = broker.new_topic()
    settings = Settings(state=str(folder / "state"), storage=Storage(root=f"{url}/{next(numbers)}", options=dict(options)))
    (folder / "tandem.toml").write_text('state = "state"\n')
    shop = MemoryShop(settings, kafka.connect(one_process.ADDRESS), log.topic, folder, log)
    shop.define(DEFINITIONS)
    faults.plan(*plan)
    run(shop)
    return len(faults.requests) >= faults.at


@pytest.mark.parametrize(("fault", "at"), [("reset after", 31), ("conflict", 47)])
def test_a_write_that_fails(bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, at: int) -> None:
    assert injured(bucket, tmp_path, monkeypatch, (fault, at, WRITES))


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", FAULTS)
def test_any_write_fails(bucket: Any, tmp_path: Path, fault: str) -> None:
    for at in range(1, EVERY):
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            if not injured(bucket, folder, patch, (fault, at, WRITES)):
                return
    pytest.fail(f"a run has more than {EVERY} requests that write; raise the bound")


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "conflict"])
def test_some_reads_fail(bucket: Any, tmp_path: Path, fault: str) -> None:
    for at in range(1, 2000, 97):
        folder = tmp_path / str(at)
        folder.mkdir()
        with pytest.MonkeyPatch.context() as patch:
            if not injured(bucket, folder, patch, (fault, at, READS)):
                return
