"""A declared start becomes positions once: the same of Kafka and of the archive, and stored with the release."""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.release import apply
from tandem.batch.release.declared_starts import StartImpossible, first_archived_at, resolve_starts
from tandem.batch.release.release_plan import Terms
from tandem.infra import kafka
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.publish.adoption import UnresolvedStart
from tandem.ledger.publish.releases import Releases
from tandem.views.fingerprint.definition_diff import compare
from tandem.views.instant import microseconds
from tandem.views.project.project import Project, load_files
from tandem.views.start import StartPositions
from tests.batch.release.test_apply import promoted, recomputed
from tests.batch.shop import DEFINITIONS, MemoryShop, Shop, answers, records, rows_of, truth

NOW = datetime(2027, 1, 1, tzinfo=UTC)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def starting(start: str) -> str:
    return DEFINITIONS.replace("from datetime import datetime", "from datetime import UTC, datetime").replace(
        'identity=("id",)', f'identity=("id",), start={start}'
    )


def resolved(shop: Shop, *, now: datetime = NOW) -> Project:
    return resolve_starts(shop.project(), shop.tables, lambda: shop.connection, now=now)


def positions(project: Project) -> dict[int, int]:
    start = project.sources["sales"].start
    assert isinstance(start, StartPositions)
    return {number: offset for (_, number), offset in start.offsets}


@pytest.fixture
def memory(tmp_path: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> MemoryShop:
    return MemoryShop.of(tmp_path, monkeypatch)  # type: ignore[arg-type]


def at_noon(memory: MemoryShop) -> None:
    """A log whose timestamps do not rise: of partition 0 the first at noon is offset 2, partition 1 has none."""
    for minutes in (-5, -2, 0, -1, 3):
        memory.log.append([records(1, 4)[0][0]], at=NOON + timedelta(minutes=minutes))
    memory.log.append([records(2, 4)[1][0]] * 2, partition=1, at=NOON - timedelta(hours=1))


def test_kafka_and_the_archive_give_the_same_positions_of_a_time(memory: MemoryShop) -> None:
    memory.define(starting("datetime(2026, 11, 1, 12, tzinfo=UTC)"))
    at_noon(memory)
    before = positions(resolved(memory))
    assert before == {0: 2, 1: 2}, "of a partition without later record its end"
    write_archive.run(memory.run("archive"), lambda: resolved(memory))
    ledger = ArchiveLedger(memory.tables, "sales")
    found = first_archived_at(memory.tables, "sales", NOON, ledger.archived())
    assert found == kafka.first_at(memory.connection, [memory.topic], int(NOON.timestamp()) * 1000) == {(memory.topic.id, 0): 2}
    memory.log.delete_below({0: 5})
    memory.define(starting("datetime(2026, 11, 1, 11, 58, tzinfo=UTC)"))
    assert positions(resolved(memory)) == {0: 1, 1: 2}, "the archive has what the topic no longer has"


def test_now_is_resolved_once(memory: MemoryShop) -> None:
    memory.define(starting('"now"'))
    at_noon(memory)
    write_archive.run(memory.run("archive"), lambda: resolved(memory))
    at_noon(memory)
    assert positions(resolved(memory)) == {0: 5, 1: 2}
    stored = load_files(Releases(memory.tables).load(1).files)
    assert positions(stored) == {0: 5, 1: 2}
    assert not compare(stored, resolved(memory)).different


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("datetime(2027, 1, 1, 1, tzinfo=UTC)", "which is after now, 2027-01-01T00:00:00"),
        ("{2: 5}", "of partition 2 of topic '.*', which has the partitions 0 to 1"),
        ("{0: 1}", "of which neither archive nor topic has records before offset 3"),
    ],
)
def test_a_start_that_the_log_does_not_have_is_refused(memory: MemoryShop, start: str, message: str) -> None:
    memory.define(starting(start))
    at_noon(memory)
    memory.log.delete_below({0: 3})
    with pytest.raises(StartImpossible, match=message):
        resolved(memory)


def test_another_start_is_another_definition_and_folds_what_the_archive_holds(shop: Shop) -> None:
    """From no start to one, then to an earlier one, whose records only the archive still has."""
    log = records(61, 80)
    shop.sell(log)
    write_archive.run(shop.run("archive"), shop.project)
    recomputed(shop)
    shop.delete_below({0: 10, 1: 10})
    before = shop.project()
    for first in (30, 5):
        shop.define(starting(f"{{0: {first}, 1: {first}}}"))
        wanted = resolved(shop)
        (change,) = compare(before, wanted).sources
        assert (change.kind, change.rebuilt) == ("source", True)
        assert any("start" in each.words for each in change.changes)
        apply.run(shop.run("apply"), lambda project=wanted: project, Terms(max_lag=0))
        live = promoted(shop)
        counts = live.counts["sales"]
        assert counts.skipped == sum(min(first, len(values)) for values in log.values())
        sold = truth({number: values[first:] for number, values in log.items()})
        assert sum(row["n"] for row in answers(shop, live, "per_hour")) == counts.events == sold.events
        before = wanted


def test_a_broker_and_an_archive_of_its_records_give_the_same_positions(shop: Shop) -> None:
    """At the timestamps of records, and a microsecond before them."""
    for _ in range(2):
        shop.sell(records(62, 30))
    write_archive.run(shop.run("archive"), shop.project)
    table = rows_of(shop, shop.tables.archive("sales"))
    stamps = sorted(set(table["timestamp"].to_pylist()))
    ledger = ArchiveLedger(shop.tables, "sales")
    for at in (stamps[0], stamps[len(stamps) // 2], stamps[-1], stamps[-1] + timedelta(milliseconds=1)):
        for moment in (at, at - timedelta(microseconds=1)):
            asked = kafka.first_at(shop.connection, [shop.topic], -(-microseconds(moment) // 1000))
            assert first_archived_at(shop.tables, "sales", moment, ledger.archived()) == asked


def test_no_release_stores_a_start_that_is_not_offsets_yet(memory: MemoryShop) -> None:
    """A program may call the runs without the command line, which resolves starts."""
    memory.define(starting('"now"'))
    for run in (write_archive.run, recompute.run, partial(apply.run, terms=Terms(max_lag=0))):
        with pytest.raises(UnresolvedStart, match="source 'sales' starts at now, which is not offsets yet"):
            run(memory.run("test"), memory.project)
    assert not Releases(memory.tables).every()
