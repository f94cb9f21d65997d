"""The archive is the log byte for byte; events and quarantine have all of it; an interrupted run is finished once."""

import json
from dataclasses import replace
from typing import NoReturn

import pytest
from confluent_kafka import Producer

from tandem.batch.archive import decode_to_files, write_archive
from tandem.batch.runtime.spark_jobs import TaskFailed
from tandem.infra import kafka
from tandem.ledger.log.archive_runs import ArchiveLedger, ArchiveProgress
from tandem.ledger.log.fetch_checks import LogChanged
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.views.errors import TandemError
from tandem.views.project.project import Project
from tests.batch.shop import DEFINITIONS, MALFORMED, Shop, records, rows_of, together
from tests.stack import delete_topic, librdkafka, stack_settings

pytestmark = pytest.mark.broker


def decoder(shop: Shop) -> str:
    live = Publications(shop.tables).latest()
    assert live is not None
    return Releases(shop.tables).load(live.release).sources["sales"]


def contents(shop: Shop) -> dict[str, list[dict]]:
    tables = shop.tables
    return {
        "archive": rows_of(shop, tables.archive("sales")).to_pylist(),
        "events": rows_of(shop, tables.events("sales", decoder(shop))).to_pylist(),
        "quarantine": rows_of(shop, tables.quarantine("sales", decoder(shop))).to_pylist(),
    }


def test_every_record_is_archived_once_byte_for_byte(shop: Shop) -> None:
    log = records(1, 300)
    shop.sell(log)

    (first,) = write_archive.run(shop.run("archive"), shop.project)
    (nothing,) = write_archive.run(shop.run("archive"), shop.project)
    more = records(2, 100)
    shop.sell(more)
    (second,) = write_archive.run(shop.run("archive"), shop.project)

    both, found = together(log, more), contents(shop)
    held = {partition: [row["value"] for row in found["archive"] if row["partition"] == partition] for partition in (0, 1)}
    assert held == both
    assert [row["offset"] for row in found["archive"] if row["partition"] == 0] == list(range(len(both[0])))
    assert {row["topic_id"] for row in found["archive"]} == {shop.topic.id}
    bad = [value for values in both.values() for value in values if value in MALFORMED]
    assert [row["first_bytes"] for row in found["quarantine"]] == [value or b"" for value in bad]
    assert len(found["events"]) == len(found["archive"]) - len(bad)
    assert nothing.counts.events == 0
    assert first.counts.events + second.counts.events == len(found["events"])
    assert second.end == ArchiveLedger(shop.tables, "sales").end(decoder(shop))


def test_one_job_reads_the_log_and_no_job_reads_the_archive(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_again(*_: object) -> NoReturn:
        raise AssertionError("the task that copied the records has decoded them")

    monkeypatch.setattr(decode_to_files, "decode", read_again)
    log = records(9, 200)
    shop.sell(log)

    (done,) = write_archive.run(shop.run("archive"), shop.project)

    found = contents(shop)
    assert len(found["archive"]) == sum(map(len, log.values())) == len(found["events"]) + len(found["quarantine"])
    assert done.counts.events == len(found["events"])
    assert ArchiveLedger(shop.tables, "sales").progress(decoder(shop)) == ArchiveProgress(1, 1, 1)


def test_a_decoder_that_ends_its_process_does_not_stop_the_archive(shop: Shop) -> None:
    """The log may delete the records before anybody has mended the decoder."""
    shop.define(
        DEFINITIONS.replace(
            "sales = Source(", "def ended(value: bytes) -> Sale:\n    os._exit(1)\n\n\nsales = Source(decoder=ended, "
        ).replace("from datetime import datetime", "import os\nfrom datetime import datetime", 1)
    )
    log, said = records(10, 50), list[str]()
    shop.sell(log)

    with pytest.raises(TaskFailed):
        write_archive.run(replace(shop.run("archive"), say=said.append), shop.project)

    held = rows_of(shop, shop.tables.archive("sales"))
    assert held["value"].to_pylist() == [*log[0], *log[1]]
    assert ArchiveLedger(shop.tables, "sales").unchecked() is None
    assert ArchiveLedger(shop.tables, "sales").progress(decoder(shop)) == ArchiveProgress(1, 0, 0)
    assert [line for line in said if line.endswith("copying without decoding")]


def test_aborted_and_uncommitted_records_are_not_archived(shop: Shop) -> None:
    sale = json.dumps({"id": "a", "at": "2026-03-01T00:00:00Z", "shop": "s", "cents": 1}).encode()
    options = {**librdkafka(shop.connection), "log_level": 0}
    producer = Producer(options | {"transactional.id": shop.topic.name, "error_cb": lambda _: None})
    producer.init_transactions()
    for commit in (True, False, True):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(shop.topic.name, sale, partition=0, headers=[("trace", b"1")])
        producer.flush()
        producer.commit_transaction() if commit else producer.abort_transaction()
    producer.begin_transaction()
    producer.produce(shop.topic.name, sale, partition=0)
    producer.flush()

    (done,) = write_archive.run(shop.run("archive"), shop.project)

    producer.abort_transaction()
    found = contents(shop)
    assert [row["offset"] for row in found["archive"]] == [0, 1, 2, 8, 9, 10]
    assert found["archive"][0]["headers"] == [{"key": "trace", "value": b"1"}]
    assert (done.counts.events, done.counts.holes) == (6, 6)
    assert not Gaps(shop.tables).every()


def test_records_that_the_log_deletes_before_they_are_read_are_a_gap(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write_archive, "_COPY_PAUSES_S", (0, 0))
    log, said = records(12, 100), list[str]()
    shop.sell(log)

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 1:
            shop.delete_below({0: 10})

    (done,) = write_archive.run(replace(shop.run("archive"), say=say), shop.project)

    copying = [line for line in said if "copying" in line]
    offsets = sum(map(len, log.values()))
    assert copying == [f"sales: copying {each} offsets" for each in (offsets, offsets - 10)]
    (gap,) = Gaps(shop.tables).of("sales")
    assert (done.gaps, gap.ranges.to_json()) == ((gap.name,), {shop.topic.id: {"0": [[0, 10]]}})
    found = contents(shop)
    assert [row["value"] for row in found["archive"]] == [*log[0][10:], *log[1]]
    assert len(found["events"]) + len(found["quarantine"]) == len(found["archive"])


@pytest.mark.slow
def test_another_topic_of_the_same_name_is_refused(shop: Shop) -> None:
    shop.sell(records(8, 20))
    write_archive.run(shop.run("archive"), shop.project)
    delete_topic(shop.connection, shop.topic.name)
    kafka.create(shop.connection, [shop.topic.name], shop.settings)

    with pytest.raises(
        LogChanged, match=r"created again, or this is another broker.*`tandem archive --new-topic` continues with this topic"
    ):
        write_archive.run(shop.run("archive"), shop.project)

    # It is accepted once, even while it is empty.
    write_archive.run(shop.run("archive"), shop.project, new_topic=True)
    anew = replace(shop, topic=kafka.topic(shop.connection, shop.topic.name))
    log = records(8, 20)
    anew.sell(log)
    (done,) = write_archive.run(shop.run("archive"), shop.project)
    assert {number: end for (topic, number), end in done.end.items() if topic == anew.topic.id} == {
        number: len(values) for number, values in log.items()
    }
    assert done.gaps == ()
    assert write_archive.run(shop.run("archive"), _unreadable)[0].end == done.end


def _unreadable() -> Project:
    raise AssertionError("what is published is archived, whatever the working tree says by now")


def test_an_absent_broker_is_reported_in_one_sentence(shop: Shop) -> None:
    absent = replace(shop.connection, address=replace(shop.connection.address, bootstrap="127.0.0.1:1", timeout_s=1))
    alone = Shop(stack_settings(absent, shop.folder / "state"), absent, shop.topic, shop.folder)

    with pytest.raises(TandemError, match=r"no Kafka broker at 127\.0\.0\.1:1"):
        write_archive.run(alone.run("archive"), alone.project)
