"""Maintenance changes no answer of live, retained or pinned snapshots, and no running read."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake
from hypothesis import example, given
from hypothesis import strategies as st

from tandem.batch.maintain import maintain
from tandem.batch.maintain.maintain import Maintained, drop_unneeded
from tandem.batch.runtime import delta_commits, scratch
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.infra.settings import BatchSettings, KeepSettings, Settings
from tandem.ledger import cut_decision
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import SPEED
from tandem.ledger.delta.journal import Journal
from tandem.ledger.delta.one_writer import write_leases
from tandem.ledger.delta.one_writer.write_leases import Owner
from tandem.ledger.delta.one_writer.write_locks import LockTimeout
from tandem.ledger.files.file_ranges import EVENTS, RECORDS, PositionColumns, file_ranges
from tandem.ledger.log.archive_runs import APP_ID, ArchiveLedger
from tandem.ledger.log.counts import Counts
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.log.registry_schemas import SCHEMA
from tandem.ledger.publish import promotion
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Failed, Value
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.kernel.kernel import decode
from tandem.views.source.source import RECORDS_SCHEMA, REJECTS_SCHEMA, events_schema
from tests.killed import Killed
from tests.samples import cases, just
from tests.serving import oracle
from tests.serving.world import NOON, SOURCE, World, hit

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
"""A clock at which every file that is taken out may be deleted at once."""

HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def kept_up(world: World, *, publications: int = 2, hours: int = 0, mb: int = 1) -> Maintained:
    keep = KeepSettings(publications=publications, file_hours=hours)
    chosen = Settings(state=str(world.state), keep=keep, batch=BatchSettings(lock_wait_s=0, task_mb=mb))
    return maintain.run(chosen, now=lambda: world.clock, say=lambda _: None)


def more(world: World, *numbers: int) -> None:
    """Hits on each partition, a malformed record among them, and a micro-batch of them."""
    for partition, number in enumerate(numbers):
        world.append(partition, *(hit(f"/{n % 3}", n + 1) for n in range(number)), b"{")
    world.trigger()


def archived(world: World) -> None:
    """What an archive run leaves behind for what is new in the log: a file in each of three tables."""
    source, tables = world.project.sources[SOURCE], world.tables
    decoder = decoder_fingerprint(source)
    ledger = ArchiveLedger(tables, SOURCE)
    before = ledger.runs()
    start = before[-1].end if before else LOG_START
    if start == world.end:
        return
    run = ledger.intend(start=start, end=world.end, by="test", at=world.clock)
    records = world.records(start, world.end)
    found = decode(source, records)
    for address, schema, rows, columns in (
        (tables.archive(SOURCE), RECORDS_SCHEMA, records, RECORDS),
        (tables.events(SOURCE, decoder), events_schema(source), found.events, EVENTS),
        (tables.quarantine(SOURCE, decoder), REJECTS_SCHEMA, found.rejects, RECORDS),
    ):
        handle = delta_commits.make_table(tables, address, schema, bounded=columns.names)
        written = CommitProperties(app_transactions=[Transaction(APP_ID, run.number)])
        write_deltalake(handle, rows, mode="append", commit_properties=written)
    counts = Counts(events=found.events.num_rows, quarantined={"json": found.rejects.num_rows})
    ledger.check(run.number, at=world.clock)
    ledger.finish(decoder, run.number, counts=counts, newest=NOON, at=world.clock)


def log_tables(world: World) -> dict[str, PositionColumns]:
    decoder = decoder_fingerprint(world.project.sources[SOURCE])
    tables = world.tables
    return {
        tables.archive(SOURCE): RECORDS,
        tables.events(SOURCE, decoder): EVENTS,
        tables.quarantine(SOURCE, decoder): RECORDS,
    }


def logged(world: World) -> dict[str, list[dict[str, Any]]]:
    """All rows of the log's tables, in the order of the log."""
    found = {}
    for address, where in log_tables(world).items():
        if (handle := delta_tables.open_table(world.tables, address)) is not None:
            rows = [row for path in delta_tables.files(handle) for row in delta_tables.read_file(handle, path).to_pylist()]
            found[address] = sorted(rows, key=lambda row: [row[name] for name in where.names])
    return found


def asked(reader: Reader) -> list[dict[str, Any]]:
    answer = reader.answer("per_page", layer="merged" if reader.publication is None else "batch")
    assert isinstance(answer, Value | Absent), answer
    return oracle.unlabelled(answer.rows())


def assert_whole(world: World, retained: tuple[int, ...], log: dict[str, list[dict[str, Any]]]) -> None:
    assert asked(Reader(world.tables)) == oracle.per_page(world.values(LOG_START, world.writer.end))
    for publication in Publications(world.tables).history():
        if publication.number in retained:
            expected = oracle.per_page(world.values(LOG_START, publication.cut(SOURCE)))
            assert asked(Reader(world.tables, publication.number)) == expected
    assert logged(world) == log


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("more"), st.tuples(st.integers(0, 4), st.integers(0, 4))),
        st.tuples(st.just("archive"), st.none()),
        st.tuples(st.just("recompute"), st.integers(1, 2)),
        st.tuples(st.just("maintain"), st.integers(1, 3)),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("pin"), st.none()),
    ),
    min_size=4,
    max_size=14,
)


# A policy that lets go of publication 2, then one that would keep it.
@example([("more", (0, 1)), ("recompute", 1), ("recompute", 1), ("maintain", 1), ("maintain", 2)])
@just(40, quick=4)
@given(steps=STEPS)
def test_no_maintenance_schedule_changes_answers(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, Any]]) -> None:
    world = World(tmp_path_factory.mktemp("world"), clock=LONG_AGO)
    pinned: list[tuple[Reader, list[dict[str, Any]], datetime]] = []
    for step, how in steps:
        world.clock += timedelta(minutes=20)
        match step:
            case "more":
                more(world, *how)
            case "archive":
                archived(world)
            case "recompute":
                world.recompute(world.writer.end, files=how)
            case "compact":
                world.compact()
            case "pin":
                reader = Reader(world.tables)
                reader.refresh()
                expected = oracle.per_page(world.values(LOG_START, world.writer.end))
                pinned.append((reader, expected, world.clock))
            case "maintain":
                log = logged(world)
                done = kept_up(world, publications=how, hours=1)
                assert_whole(world, done.retained, log)
        # What was live within the hour is there even where the count alone would let it go.
        for reader, expected, since in pinned:
            if world.clock - since <= timedelta(hours=1):
                held = reader.snapshot().publication.number
                assert asked(reader) == expected
                assert reader.snapshot().publication.number == held


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Four archive runs and four recomputes; publications 2 to 5."""
    made = World(tmp_path, clock=LONG_AGO)
    for number in (3, 1, 2, 4):
        more(made, number, number)
        archived(made)
        made.recompute(made.writer.end)
        made.clock += timedelta(hours=2)
    return made


def test_freed_files_are_reported_and_deleted(world: World) -> None:
    def files() -> dict[Path, int]:
        every = Path(world.tables.root).rglob("*.parquet")
        return {path: path.stat().st_size for path in every if not {"realtime", "_delta_log"} & {*path.parts}}

    before = files()
    done = kept_up(world)
    gone = before.keys() - files().keys()
    assert done.retained == (4, 5)
    assert (done.freed.files, done.freed.bytes) == (len(gone), sum(before[path] for path in gone))
    by_name = {table.table: table for table in done.tables}
    assert (by_name["log/hits/archive"].compacted, by_name["log/hits/archive"].into) == (4, 2)
    assert by_name["log/hits/archive"].freed.files == 4
    view = by_name[f"views/per_page/{world.live.views['per_page'].fingerprint}"]
    assert (view.expired, view.freed.files) == (2, 2)
    assert kept_up(world).freed.files == 0


def test_an_expired_publication_is_refused_with_the_retained_ones(world: World) -> None:
    log = logged(world)
    done = kept_up(world)
    assert_whole(world, done.retained, log)
    failed = Reader(world.tables, 3).refresh()
    assert failed == Failed("cannot answer from publication 3: its batch views are no longer retained; retained: 1, 4, 5")


def test_files_that_are_being_read_stay_for_file_hours(world: World) -> None:
    world.clock = datetime.now(UTC)
    handles = [delta_tables.open_table(world.tables, address) for address in log_tables(world)]
    views = [
        delta_tables.open_table(world.tables, world.tables.view(name, live.fingerprint))
        for name, live in world.live.views.items()
    ]
    paths = [(handle, path) for handle in (*handles, *views) if handle is not None for path in delta_tables.files(handle)]
    for handle, path in paths:
        os.utime(Path(handle.table_uri.removeprefix("file://")) / path, (0, 0))  # written long before they were taken out
    done = kept_up(world, hours=1)
    assert sum(table.compacted + table.expired for table in done.tables) > 0
    assert done.freed.files == 0
    for handle, path in paths:
        delta_tables.read_file(handle, path)


def test_old_files_of_every_journal_are_deleted(world: World) -> None:
    control = Path(world.tables.root) / "control"
    Journal(world.tables, world.tables.control("schemas"), SCHEMA).add(lambda _: {"at": NOON, "schemas": "[]"})
    journals = {str(log.parent.relative_to(world.tables.root)) for log in control.rglob("_delta_log")}
    assert journals <= {table.table for table in kept_up(world).tables}


def test_the_lease_that_a_speed_layer_holds_keeps_no_old_files(world: World) -> None:
    """It is renewed every ten seconds, and nobody else deletes what it replaces."""
    lease = write_leases.take(world.tables, SPEED, Owner("tandem speed", "here", 1, NOON), patience=0, say=print, duration_s=3600)
    for _ in range(3):
        lease.renew()
    kept_up(world)
    assert len([*Path(world.tables.control("leases", SPEED)).glob("*.parquet")]) == 1
    lease.renew()


def test_rows_are_in_the_order_of_the_log_and_files_are_pruned_by_it(world: World) -> None:
    log = logged(world)
    kept_up(world)
    assert logged(world) == log
    for address, where in log_tables(world).items():
        handle = delta_tables.open_table(world.tables, address)
        assert handle is not None
        assert handle.transaction_version(APP_ID) == 4
        found = file_ranges(handle, where)
        assert sorted(span.partitions for span in found if span.partitions) == [(0, 0), (1, 1)]
        for span in found:
            offsets = pq.read_table(Path(address) / span.path)[where.offset].to_pylist()
            assert offsets == sorted(offsets)
            assert span.offsets == (offsets[0], offsets[-1] + 1)


def test_a_run_that_is_killed_at_any_step_leaves_everything_readable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It dies before each thing that it does to a file; the run after it goes on."""
    steps = fatal = 0

    def mortal(does: Callable[..., Any]) -> Callable[..., Any]:
        def act(*args: Any, **kwargs: Any) -> Any:
            nonlocal steps
            steps += 1
            if steps == fatal:
                raise Killed
            return does(*args, **kwargs)

        return act

    parts = (
        (delta_tables, "conditional_exchange"),
        (scratch, "drop"),
        (scratch, "clear"),
        (TableFile, "write"),
        (maintain, "_vacuum"),
    )
    for place, name in parts:
        monkeypatch.setattr(place, name, mortal(getattr(place, name)))
    strange(world)
    done, deaths, every = None, 0, cases(4, bug=2, longer=2)
    while done is None:
        fatal, steps = fatal + 1, 0
        more(world, 1)
        archived(world)
        log = logged(world)
        try:
            done = kept_up(world)
        except Killed:
            deaths += 1
            fatal += deaths % 2 if every < 4 else 3  # every other step, another one each time, or every fourth
        assert_whole(world, (5,), log)
    assert deaths > 16 // every


def strange(world: World) -> None:
    """A release that was stored and never published, with tables of its own."""
    views = {"per_page": "feed", "ever": world.live.views["ever"].fingerprint}
    Releases(world.tables).store(
        {"a.py": b""}, sources={SOURCE: "beef"}, views=views, by="test", at=world.clock - timedelta(hours=3)
    )
    for address in (world.tables.events(SOURCE, "beef"), world.tables.view("per_page", "feed")):
        write_deltalake(address, pa.table({"a": [1]}))


def test_tables_of_a_release_that_was_never_published_are_dropped(world: World) -> None:
    strange(world)
    log = logged(world)
    done = kept_up(world)
    assert sorted(done.discarded) == ["log/hits/beef", "views/per_page/feed"]
    assert done.scratch.files > 0
    assert not (Path(world.tables.root) / "log" / SOURCE / "beef").exists()
    assert_whole(world, done.retained, log)


@pytest.mark.slow
def test_tables_of_a_young_release_stay(world: World) -> None:
    views = {"per_page": "feed"}
    Releases(world.tables).store({"a.py": b""}, sources={SOURCE: "beef"}, views=views, by="test", at=world.clock)
    write_deltalake(world.tables.view("per_page", "feed"), pa.table({"a": [1]}), partition_by=None)
    release = Releases(world.tables).every()[-1]
    assert drop_unneeded(world.tables, [release], [], needed=[release], kept=[]) == []
    assert drop_unneeded(world.tables, [release], [], needed=[], kept=[]) == [world.tables.view("per_page", "feed")]


def test_maintenance_and_writers_of_the_tables_wait_for_each_other(world: World) -> None:
    lock = world.tables.lock("views")
    lock.parent.mkdir(parents=True, exist_ok=True)
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LockTimeout):
            kept_up(world)
        holder.communicate("")
    assert kept_up(world).retained == (4, 5)


def test_without_publications_nothing_is_done(tmp_path: Path) -> None:
    done = maintain.run(Settings(state=str(tmp_path)), now=lambda: NOON, say=lambda _: None)
    assert (done.retained, done.freed.files) == ((), 0)


@pytest.mark.slow
def test_realtime_tables_of_a_retired_release_are_dropped(world: World) -> None:
    """A release stands until it is retired, and its tables an hour longer, for those who read them."""
    more(world, 4, 4)
    world.recompute(world.end)
    live = Publications(world.tables).latest()
    assert live is not None
    old = Releases(world.tables).load(1)
    for number in (2, 3):
        files = {**old.files, "tandem.toml": b"#" * number}
        Releases(world.tables).store(files, sources=old.sources, views=old.views, by="test", at=world.clock)
        cut_decision.begin(world.tables, number, SOURCE, world.end, by="test", at=world.clock)
        StandingReleases(world.tables).record("built", replace(live, release=number, kind="apply", at=world.clock))
    world.clock += timedelta(days=30)
    promotion.retire(StandingReleases(world.tables), 2, by="test", at=world.clock)
    before = asked(Reader(world.tables))
    assert kept_up(world, hours=1).discarded == ()
    world.clock += timedelta(hours=2)
    assert kept_up(world, hours=1).discarded == ("realtime/2",)
    assert {path.name for path in Path(world.tables.root, "realtime").iterdir()} == {"1", "3"}
    assert asked(Reader(world.tables)) == before


def test_nothing_is_deleted_if_the_publications_are_lost(world: World) -> None:
    strange(world)
    log = logged(world)
    kept, elsewhere = Path(world.tables.control("publications")), Path(world.tables.root) / "elsewhere"
    kept.rename(elsewhere)
    done = kept_up(world)
    assert (done.retained, done.tables, done.discarded) == ((), (), ())
    elsewhere.rename(kept)
    assert_whole(world, (4, 5), log)
