"""The archive is the log's memory: whatever happens to the topic or the archive's place, answers stay right."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.transfer import export_archive, import_archive, replay
from tandem.infra import kafka
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.publications import Publication
from tandem.speed.source.start_position import beginning
from tests.batch.filed import rows_in
from tests.batch.shop import Shop, answers, assert_true, records
from tests.speed.sales import wait_for
from tests.stack import add_partitions, create_as, delete_below, librdkafka, new_topic

pytestmark = pytest.mark.broker


def sell(
    shop: Shop,
    log: Mapping[int, Sequence[bytes | None]],
    codec: str = "none",
    *,
    keyed: bool = False,
    at: int = 1_700_000_000_000,
) -> None:
    """As any producer may send: compressed, some or all with keys, with headers and timestamps of its own."""
    failed = list[object]()
    options = {**librdkafka(shop.connection), "compression.type": codec, "linger.ms": 50}
    producer = Producer(options)
    for partition, values in log.items():
        for number, value in enumerate(values):
            headers = [("codec", codec.encode()), ("none", None)] if number % 2 else None
            key = b"k%d" % (number % 20) if number % 3 or keyed else None
            told = {"on_delivery": lambda error, _: failed.append(error) if error else None}
            producer.produce(shop.topic.name, value, key, partition, timestamp=at + number, headers=headers, **told)
    assert (producer.flush(20), failed) == (0, [])


def archived(shop: Shop) -> write_archive.ArchiveResult:
    return write_archive.run(shop.run("archive"), shop.project)[0]


def recomputed(shop: Shop) -> Publication:
    return recompute.run(shop.run("recompute"), shop.project, RecomputeRequest(mode="full")).publication


def delete_all(shop: Shop, numbers: Sequence[int]) -> None:
    """What retention does, at once: the topic has nothing of these partitions any more."""
    delete_below(shop.connection, shop.topic, dict.fromkeys(numbers, -1))


def without_places(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name not in ("topic_id", "offset")} for row in rows]


@pytest.mark.slow
def test_answers_stay_when_the_topic_is_emptied_and_the_archive_moves(shop: Shop, tmp_path: Path) -> None:
    """One history: compressed each way, deleted from the topic once archived, with a partition added in between."""
    log: dict[int, list[bytes | None]] = {0: [], 1: [], 2: []}
    for seed, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        some = records(40 + seed, 60, known=log[0])
        sell(shop, some, codec)
        for partition, values in some.items():
            log[partition] += values
        if codec == "snappy":
            archived(shop)
            delete_all(shop, (0, 1))
            add_partitions(shop.connection, shop.topic, 3)
    log[2] += records(50, 30)[0]
    sell(shop, {2: log[2]})
    done = archived(shop)
    delete_all(shop, (0, 1, 2))
    assert done.gaps == ()
    live = recomputed(shop)
    assert_true(shop, live, log)

    other = moved(shop, tmp_path)
    assert archived(other).gaps == ()
    there = recomputed(other)
    assert_true(other, there, log)
    for view in ("per_hour", "refunds"):
        assert answers(other, there, view) == answers(shop, live, view)
    # The speed layer reads what came from the archive, before its own topic.
    begin = beginning(other.tables, other.project().sources["sales"], LOG_START, other.connection, at=datetime.now(UTC))
    assert begin.archived == done.end


@pytest.mark.slow
def test_a_moved_log_continues_and_a_rebuilt_topic_is_counted_again(shop: Shop, tmp_path: Path) -> None:
    log, more = records(60, 200), records(61, 40)
    sell(shop, log)
    archived(shop)
    delete_all(shop, (0, 1))
    live = recomputed(shop)

    # What its own topic gets comes after what was imported, copies of it too.
    other = moved(shop, tmp_path)
    archived(other)
    recomputed(other)
    sell(other, {0: [*log[1][:50], *more[0]], 1: more[1]})
    archived(other)
    assert ArchiveLedger(other.tables, "sales").generations() == (shop.topic.id, other.topic.id)
    assert_true(other, recomputed(other), {**log, 10: [*log[1][:50], *more[0]], 11: more[1]})

    (tmp_path / "again").mkdir()
    to = f"{shop.topic.name}-again"
    sent = replay.run(shop.settings, shop.project().sources["sales"], to, LOG_START, say=lambda _: None)
    assert sent.records == {number: len(values) for number, values in log.items()}
    again = Shop.open(shop.connection, sent.topic, tmp_path / "again")
    archived(again)
    assert without_places(rows_in(again.tables)) == without_places(rows_in(shop.tables))
    anew = recomputed(again)
    assert_true(again, anew, log)
    for view in ("per_hour", "refunds"):
        assert answers(again, anew, view) == answers(shop, live, view)


def moved(shop: Shop, folder: Path) -> Shop:
    """Another installation with a topic of its own that has nothing yet, and the shop's archive."""
    export_archive.run(shop.tables, ["sales"], folder / "moved", say=lambda _: None)
    (folder / "other").mkdir()
    other = Shop.open(shop.connection, new_topic(shop.connection, partitions=3), folder / "other")
    import_archive.run(other.settings, folder / "moved", ["sales"], now=lambda: datetime.now(UTC), say=lambda _: None)
    assert rows_in(other.tables) == rows_in(shop.tables)
    return other


@pytest.mark.slow
def test_compacted_records_are_holes_and_not_gaps(shop: Shop, tmp_path: Path) -> None:
    """What is archived before it is compacted stays; what never was is no part of the log that the archive knows."""
    compacted = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    name = f"{shop.topic.name}-compacted"
    made = Shop.open(shop.connection, create_as(shop.connection, name, compacted), tmp_path)
    kept, early, late = records(70, 40), records(71, 40)[0], records(72, 40)[0]
    sell(made, kept, keyed=True)
    archived(made)
    sell(made, {0: early}, keyed=True)
    # The newest segment is never compacted: it begins with what is appended when the one before is over its age.
    sell(made, {0: late}, keyed=True, at=1_700_000_001_000)
    wait_for(lambda: held(made) < sum(kafka.ends(made.connection, [made.topic]).values()))
    end = sum(kafka.ends(made.connection, [made.topic]).values())
    done = archived(made)
    rows = rows_in(made.tables)
    assert done.gaps == ()
    assert done.counts.holes == end - len(rows) > 0
    assert [row["value"] for row in rows if row["partition"] == 1] == kept[1]
    assert_true(
        made, recomputed(made), {number: [row["value"] for row in rows if row["partition"] == number] for number in (0, 1)}
    )


def held(shop: Shop) -> int:
    """How many records the topic has by now."""
    starts = {(shop.topic.id, number): 0 for number in (0, 1)}
    found = kafka.records(shop.connection, [shop.topic], starts, most=10**6)
    return sum(map(len, found.values()))
