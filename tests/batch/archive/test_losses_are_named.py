"""Records that the log lost before they were archived are a named gap, also if the archive never saw them."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.ledger.log.gaps import GapNotAccepted, Gaps
from tandem.ledger.publish.publications import Publication
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tests.batch.shop import Shop
from tests.speed.sales import Running, folded, wait_for
from tests.stack import new_topic

pytestmark = pytest.mark.broker

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def shop(broker: kafka.BrokerConnection, spark: SparkSession, tmp_path: Path) -> Shop:
    """A shop with three partitions."""
    return Shop.open(broker, new_topic(broker, partitions=3), tmp_path)


def sold(*numbers: int) -> list[bytes | None]:
    """Sales of one shop in one hour, each of which counts one."""
    return [json.dumps({"id": f"{n}", "at": "2026-03-01T00:00:00Z", "shop": "a", "cents": 1}).encode() for n in numbers]


@contextmanager
def followed(shop: Shop, spark: SparkSession) -> Iterator[None]:
    """A speed layer, which has counted the log to its end when the block ends."""
    running = Running(shop.settings)
    running.start(spark, shop.project())
    try:
        yield
        wait_for(lambda: running.error is not None or dict(folded(shop.settings)) == ends(shop))
        assert running.error is None
    finally:
        running.stop.set()
        running.join()


def ends(shop: Shop) -> dict[tuple[str, int], int]:
    now = kafka.topics(shop.connection, [shop.topic.name])
    return {partition: end for partition, end in kafka.ends(shop.connection, now).items() if end}


def delete(shop: Shop, partition: int, *, below: int) -> None:
    """What retention does, at once."""
    kafka.delete_before(shop.connection, [shop.topic], {(shop.topic.id, partition): below})


def recomputed(shop: Shop, *accepted: str) -> Publication:
    done = recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full", accepted=accepted))
    return done.publication


def answer(shop: Shop, layer: Any = "merged") -> tuple[int, list[str]]:
    """How many sales are counted, and the gaps that the answer names."""
    reader = Reader(shop.tables)
    reader.refresh()
    found = given(reader.answer("per_hour", layer=layer))
    return sum(row["n"] for row in found.rows()), [gap.name for gap in found.provenance.gaps]


def told(shop: Shop, capsys: Capture) -> dict[str, Sequence[str]]:
    """What a person reads of losses: the lines of `status` and the findings of `doctor` that are not ok."""
    capsys.readouterr()
    main(["status", "--project", str(shop.folder)])
    status = [line for line in capsys.readouterr().out.splitlines() if " lost" in line]
    main(["doctor", "--json", "--project", str(shop.folder)])
    checks = json.loads(capsys.readouterr().out)["checks"]
    looked_at = [one for one in checks if one["check"] in ("retention", "gaps")]
    return {"status": status, "doctor": [f"{one['found']}: {one['fix']}" for one in looked_at if one["outcome"] != "ok"]}


def assert_told(shop: Shop, capsys: Capture, offsets: str, way: str) -> None:
    for where, sentences in told(shop, capsys).items():
        assert len(sentences) == 1, (where, sentences)
        assert offsets in sentences[0], where
        assert way in sentences[0], where


def assert_settled(shop: Shop, capsys: Capture, name: str, lost: Callable[[], dict[str, Any]], counted: int) -> None:
    """From the archive run on that named the gap: one way on everywhere, which leads to answers without the lost records."""
    (gap,) = Gaps(shop.tables).of("sales")
    assert (gap.name, gap.ranges.to_json()) == (name, lost())
    way = f"`tandem recompute --accept-gap {name}`"
    assert_told(shop, capsys, f"{gap.ranges.length} offsets", way)
    with pytest.raises(GapNotAccepted, match=f"--accept-gap {name}"):
        recomputed(shop)
    live = recomputed(shop, name)
    assert name in live.gaps
    assert answer(shop) == answer(shop, "batch") == (counted, [name])
    assert told(shop, capsys) == {"status": [], "doctor": []}
    assert recomputed(shop).number > live.number


@pytest.mark.slow
def test_losses_in_a_partition_that_was_empty_before_are_named(shop: Shop, spark: SparkSession, capsys: Capture) -> None:
    with followed(shop, spark):
        shop.sell({0: sold(*range(5)), 1: sold(*range(5, 10))})
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)
    with followed(shop, spark):
        shop.sell({2: sold(*range(100, 110))})
    delete(shop, 2, below=10)
    assert answer(shop) == (20, [])
    assert_told(shop, capsys, "10 offsets", "`tandem archive`")
    with followed(shop, spark):
        shop.sell({2: sold(*range(200, 205))})

    (done,) = write_archive.run(shop.run("archive"), shop.project)

    assert done.gaps == ("sales-gap-1",)
    assert answer(shop) == (25, ["sales-gap-1"])
    assert_settled(shop, capsys, "sales-gap-1", lambda: {shop.topic.id: {"2": [[0, 10]]}}, 15)


@pytest.mark.slow
def test_losses_before_the_first_archive_run_are_named(shop: Shop, spark: SparkSession, capsys: Capture) -> None:
    with followed(shop, spark):
        shop.sell({0: sold(*range(10))})
    delete(shop, 0, below=10)
    assert_told(shop, capsys, "10 offsets", "`tandem archive`")
    with followed(shop, spark):
        shop.sell({0: sold(*range(20, 25))})

    (done,) = write_archive.run(shop.run("archive"), shop.project)

    assert done.gaps == ("sales-gap-1",)
    assert_settled(shop, capsys, "sales-gap-1", lambda: {shop.topic.id: {"0": [[0, 10]]}}, 5)
