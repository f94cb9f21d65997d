"""A lease has one holder at a time, whose token fences every earlier one; clocks and pauses delay, and let nobody else write."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from tandem.ledger.delta import delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unwritable, Vanished
from tandem.ledger.delta.journal import Journal
from tandem.ledger.delta.one_writer import refuse_other_writers, write_leases
from tandem.ledger.delta.one_writer.refuse_other_writers import Fenced, LeaseLost, Unclaimed
from tandem.ledger.delta.one_writer.write_leases import Lease, Owner
from tandem.ledger.delta.one_writer.write_locks import LockTimeout
from tandem.views.errors import TandemError
from tests.infra.storage.s3 import a_bucket
from tests.ledger.tiny import AT

SCHEMA = pa.schema([("x", pa.int64())])


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Callable[[], Tables]]]:
    numbers = count()
    with a_bucket() as (url, options):
        yield {
            "bucket": lambda: Tables(f"{url}/{next(numbers)}", options),
            "folder": lambda: Tables(str(tmp_path_factory.mktemp("tables"))),
        }


@pytest.fixture(params=["bucket", "folder"])
def tables(request: pytest.FixtureRequest, roots: dict[str, Callable[[], Tables]]) -> Tables:
    return roots[request.param]()


class Clock:
    """A clock that goes on only while somebody sleeps."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def owner(what: str, *, place: str = "") -> Owner:
    return Owner(what, "host", 7, datetime(2026, 11, 1, 12, tzinfo=UTC), place)


def take(
    tables: Tables,
    what: str,
    *,
    clock: Clock | None = None,
    patience: float = 100,
    said: list[str] | None = None,
    **more: Any,
) -> Lease:
    known = clock or Clock()
    place = more.pop("place", "")
    say = (said if said is not None else []).append
    sleep = more.pop("sleep", known.sleep)
    return write_leases.take(
        tables, "views", owner(what, place=place), patience=patience, say=say, clock=known, sleep=sleep, **more
    )


def table(tables: Tables) -> str:
    address = tables.view("sales", "f00d")
    delta_tables.create_table(tables, address, SCHEMA, {})
    return address


def claimed(tables: Tables, address: str, lease: Lease) -> Any:
    handle = delta_tables.open_table(tables, address)
    assert handle is not None
    return retries.claim(handle, lease)


def append(handle: Any, lease: Lease | None, x: int) -> None:
    delta_tables.conditional_replace(handle, [], [pa.table({"x": [x]}, SCHEMA)], at=AT, lease=lease)


def rows(tables: Tables, address: str) -> list[int]:
    handle = delta_tables.open_table(tables, address)
    assert handle is not None
    return sorted(x for path in delta_tables.files(handle) for x in delta_tables.read_file(handle, path)["x"].to_pylist())


def test_of_many_at_once_one_takes_it_and_the_others_wait(tables: Tables) -> None:
    def one(number: int) -> Lease | None:
        try:
            return take(tables, f"run {number}", patience=0)
        except LockTimeout:
            return None

    with ThreadPoolExecutor(4) as threads:
        taken = [lease for lease in threads.map(one, range(8)) if lease is not None]
    assert [lease.token for lease in taken] == [1]


def test_a_released_lease_is_free_and_the_next_token_is_greater(tables: Tables) -> None:
    tokens, said = [], list[str]()
    for number in range(3):
        lease = take(tables, f"run {number}", said=said)
        tokens.append(lease.token)
        lease.release()
    assert tokens == [1, 2, 3]
    assert said == []
    with pytest.raises(LeaseLost, match="was released"):
        lease.check()


def test_a_killed_holder_delays_by_the_duration_and_is_named(tables: Tables) -> None:
    take(tables, "tandem archive", duration_s=30)
    clock, said = Clock(), list[str]()
    lease = take(tables, "tandem recompute", clock=clock, said=said)
    assert lease.token == 2
    assert clock.time == 30
    (sentence,) = said
    assert sentence == (
        "waiting for tandem archive (pid 7 on host, since 2026-11-01T12:00:00+00:00), at most 100 s; if it has ended, its lease "
        "ends within 30 s"
    )


def test_a_holder_that_renews_keeps_it_for_longer_than_anybody_waits(tables: Tables) -> None:
    own = Clock()
    holder = take(tables, "tandem archive", clock=own, duration_s=3)
    waiting = Clock()

    def sleep(seconds: float) -> None:
        waiting.sleep(seconds)
        own.sleep(seconds)
        if own.time > 2:
            own.time = 0
            holder.until = 3
            holder.renew()

    with pytest.raises(LockTimeout, match=r"tandem archive \(pid 7 on host.*still holds the lease of 'views' tables after 10 s"):
        take(tables, "tandem recompute", clock=waiting, patience=10, sleep=sleep)
    holder.check()


def test_without_patience_nobody_waits_nor_takes_what_is_held_though_a_clock_is_years_ahead(tables: Tables) -> None:
    holder, ahead = take(tables, "tandem archive"), Clock()
    ahead.time = 1e9
    with pytest.raises(LockTimeout):
        take(tables, "tandem recompute", clock=ahead, patience=0)
    assert ahead.time == 1e9
    holder.check()


def test_whoever_has_the_holders_own_lock_file_does_not_wait(tables: Tables) -> None:
    take(tables, "tandem archive", place="a/views.lock")
    clock = Clock()
    assert take(tables, "tandem archive", clock=clock, place="a/views.lock").token == 2
    assert clock.time == 0
    with pytest.raises(LockTimeout):
        take(tables, "tandem archive", clock=clock, place="b/views.lock", patience=0)


def test_a_holder_that_was_not_renewed_stops_by_itself(tables: Tables) -> None:
    clock = Clock()
    lease = take(tables, "tandem archive", clock=clock, duration_s=30)
    handle = claimed(tables, table(tables), lease)
    clock.time = 30
    with pytest.raises(LeaseLost, match="the lease of 'views' tables was not renewed for 30 s"):
        append(handle, lease, 1)
    clock.time = 0  # a clock that goes back does not bring it back
    with pytest.raises(LeaseLost):
        lease.renew()


def test_a_holder_whose_lease_was_taken_finds_out_when_it_renews(tables: Tables) -> None:
    lease = take(tables, "tandem archive")
    other = take(tables, "tandem recompute")
    with pytest.raises(LeaseLost, match=r"was taken by tandem recompute \(pid 7"):
        lease.renew()
    lease.release()
    other.renew()
    found = write_leases.read(tables, "views")
    assert found is not None
    assert (found.token, found.held) == (2, True)


@pytest.mark.each_run("folder")
def test_a_thread_renews_it_and_tells_of_a_loss(tables: Tables) -> None:
    told = Event()
    lease = write_leases.take(tables, "views", owner("tandem archive"), patience=0, say=print, duration_s=9)
    first = write_leases.read(tables, "views")
    lease.keep(lost=told.set)
    until = time.monotonic() + 300
    while write_leases.read(tables, "views") == first and time.monotonic() < until:
        told.wait(0.1)
    assert write_leases.read(tables, "views") != first
    lease.until = 0  # as after a pause
    assert told.wait(30)
    with pytest.raises(LeaseLost):
        lease.check()
    lease.release()


class Pauses(Event):
    """An event that nobody sets. `wait` calls `before` with the number of the pause, and ends the thread after `most` pauses."""

    def __init__(self, most: int, before: Callable[[int], object] = lambda _: None) -> None:
        super().__init__()
        self.most, self.before, self.seconds = most, before, list[float]()

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.before(len(self.seconds))
        self.seconds.append(timeout)
        return len(self.seconds) > self.most


def test_a_thread_renews_three_times_in_a_duration_and_more_often_while_the_storage_is_away(tmp_path: Path) -> None:
    """So that two renewals may fail; a process that ends without a release waits for no thread."""
    tables = Tables(str(tmp_path / "root"))
    lease = take(tables, "tandem archive", duration_s=60)
    away = tmp_path / "away"

    def before(pause: int) -> None:
        if pause == 2:
            (tmp_path / "root").rename(away)
        if pause == 4:
            away.rename(tmp_path / "root")

    pauses = lease._ends = Pauses(6, before)
    lease.keep()
    assert lease._thread is not None
    assert lease._thread.daemon
    lease._thread.join(60)
    assert pauses.seconds == [20, 20, 20, 3, 3, 20, 20]
    lease.check()


@pytest.mark.parametrize(("duration_s", "pause"), [(10, 0.5), (20, 1), (60, 1)])
def test_a_process_that_waits_looks_twenty_times_in_a_duration_and_at_least_each_second(
    tables: Tables, duration_s: float, pause: float
) -> None:
    take(tables, "tandem archive", duration_s=duration_s)
    clock, slept = Clock(), list[float]()
    clock.time = 1000

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.sleep(seconds)

    with pytest.raises(LockTimeout):
        take(tables, "tandem recompute", clock=clock, patience=3 * pause, sleep=sleep)
    assert slept == 3 * [pause]


def test_a_row_is_shown_with_the_time_of_its_writing(tables: Tables) -> None:
    assert (write_leases.read(tables, "views"), write_leases.written(tables, "views")) == (None, None)
    before = datetime.now(UTC)
    lease = take(tables, "tandem archive")
    found = write_leases.written(tables, "views")
    assert found is not None
    record, at = found
    assert record == lease.record
    assert before - timedelta(milliseconds=1) <= at <= datetime.now(UTC)
    lease.release()
    assert write_leases.names(tables) == ["views"]
    _emptied(tables)
    assert write_leases.written(tables, "views") is None


class Puts:
    """What becomes of puts of a row: from the one of this number on each raises, after it has `landed` or before."""

    def __init__(self, patch: pytest.MonkeyPatch, error: type[Exception], *, landed: bool, since: int = 1) -> None:
        self.error, self.landed, self.since, self.count, self.put = error, landed, since, 0, write_leases._put
        patch.setattr(write_leases, "_put", self)

    def __call__(self, handle: Any, record: Any) -> None:
        self.count += 1
        assert self.count < 9, "it goes on for ever"
        if self.count < self.since or self.landed:
            self.put(handle, record)
        if self.count >= self.since:
            raise self.error("the storage is away")


FAILURES = (Conflict, Unwritable)


@pytest.mark.parametrize("error", FAILURES)
def test_a_put_that_landed_takes_the_lease_whatever_the_storage_reports(
    tables: Tables, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        puts = Puts(patch, error, landed=True)
        lease = take(tables, "tandem archive")
    assert (puts.count, lease.token) == (1, 1)
    assert write_leases.read(tables, "views") == lease.record
    lease.renew()
    assert write_leases.read(tables, "views") == lease.record


def test_a_storage_that_refuses_the_row_gives_no_lease(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        puts = Puts(patch, Unwritable, landed=False)
        with pytest.raises(Unwritable, match="the storage is away"):
            take(tables, "tandem archive")
    assert puts.count == 1
    assert write_leases.read(tables, "views") is None


@pytest.mark.parametrize("error", FAILURES)
@pytest.mark.parametrize("landed", [True, False])
def test_a_renewal_is_put_twice_and_then_fails_but_the_lease_lasts(
    tables: Tables, error: type[Exception], monkeypatch: pytest.MonkeyPatch, *, landed: bool
) -> None:
    clock = Clock()
    lease = take(tables, "tandem archive", clock=clock, duration_s=30)
    before = lease.record
    clock.time = 10
    with monkeypatch.context() as patch:
        puts = Puts(patch, error, landed=landed)
        with pytest.raises(Unwritable, match="cannot renew the lease of 'views' tables"):
            lease.renew()
    assert puts.count == 2
    assert (lease.record, lease.until) == (before, 30), "nobody knows whether it was renewed"
    lease.check()
    lease.renew()
    assert lease.until == 40
    assert write_leases.read(tables, "views") == lease.record


def test_a_renewal_counts_from_before_it_is_put(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others count from after they read it, so they wait for longer, however long the put takes."""
    clock = Clock()
    put = write_leases._put

    def slowly(handle: Any, record: Any) -> None:
        put(handle, record)
        clock.time += 7

    monkeypatch.setattr(write_leases, "_put", slowly)
    lease = take(tables, "tandem archive", clock=clock, duration_s=30)
    assert lease.until == 30
    lease.renew()
    assert lease.until == 37
    lease.release()
    with pytest.raises(LeaseLost, match="was released"):
        lease.renew()


def _emptied(tables: Tables) -> None:
    handle = delta_tables.open_table(tables, tables.control("leases", "views"))
    assert handle is not None
    delta_tables.conditional_replace(handle, delta_tables.files(handle), [], at=AT)


def test_a_lease_whose_row_is_gone_is_lost_and_anybody_may_take_it(tables: Tables) -> None:
    lease = take(tables, "tandem archive")
    _emptied(tables)
    assert lease.now_held() == "another process"
    with pytest.raises(LeaseLost, match="was taken by another process"):
        lease.renew()
    assert take(tables, "tandem recompute", patience=0).now_held().startswith("tandem recompute (pid 7 on host")


def test_a_row_whose_file_was_deleted_is_read_at_the_newest_version(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path))
    lease = take(tables, "tandem archive")
    (old,) = tmp_path.rglob("*.parquet")
    take(tables, "tandem recompute")
    (new,) = set(tmp_path.rglob("*.parquet")) - {old}
    old.unlink()
    with pytest.raises(LeaseLost, match="was taken by tandem recompute"):
        lease.renew()
    new.unlink()
    with pytest.raises(Vanished):
        write_leases.read(tables, "views")


def test_a_stale_holder_commits_nothing_however_often_it_reopens(tables: Tables) -> None:
    address = table(tables)
    stale = take(tables, "tandem archive")  # its clock stands still: it takes itself for the holder for ever
    handle = claimed(tables, address, stale)
    append(handle, stale, 1)
    handle = delta_tables.reopen(handle)
    fresh = take(tables, "tandem recompute")
    newest = claimed(tables, address, fresh)
    for at in range(3):
        with pytest.raises(Fenced, match=r"is written by tandem recompute \(pid 7 .* with token 2; this process has token 1"):
            append(handle, stale, 2)
        with pytest.raises(Fenced):
            retries.claim(handle, stale)
        handle = delta_tables.reopen(handle) if at else handle
    append(newest, fresh, 3)
    assert rows(tables, address) == [1, 3]


def test_a_claim_of_many_holders_ends_with_the_greatest_token(tables: Tables) -> None:
    address = table(tables)
    holders = [take(tables, f"run {number}") for number in range(5)]

    def one(lease: Lease) -> bool:
        try:
            claimed(tables, address, lease)
        except Fenced:
            return False
        return True

    with ThreadPoolExecutor(5) as threads:
        assert list(threads.map(one, holders))[-1]
    handle = delta_tables.open_table(tables, address)
    assert handle is not None
    assert refuse_other_writers.token(handle) == 5


def test_rows_of_a_journal_are_fenced_and_those_without_a_lease_are_not(tables: Tables) -> None:
    stale, fresh = take(tables, "tandem recompute"), take(tables, "tandem maintain")
    address = tables.control("publications")

    def journal(lease: Lease | None) -> Journal:
        return Journal(Tables(tables.root, tables.options, leases={"views": lease} if lease else {}), address, SCHEMA)

    if tables.local:
        assert journal(stale).tables.lease(address) is None
        return
    journal(stale).add(lambda _: {"x": 1})
    journal(None).add(lambda _: {"x": 2})
    journal(fresh).claim()
    with pytest.raises(Fenced):
        journal(stale).add(lambda _: {"x": 3})
    journal(None).add(lambda _: {"x": 4})
    journal(fresh).add(lambda _: {"x": 5})
    assert [row["x"] for row in journal(None).read().rows()] == [1, 2, 4, 5]


def test_a_guarded_table_needs_a_lease_and_tables_of_a_folder_do_not(tables: Tables) -> None:
    held = Tables(tables.root, tables.options, leases={"views": take(tables, "tandem recompute")})
    for address in (tables.archive("sales"), tables.events("sales", "f00d"), tables.quarantine("sales", "f00d")):
        if tables.local:
            assert held.lease(address) is None
        else:
            with pytest.raises(Unclaimed, match="without the lease 'archive'"):
                held.lease(address)
    assert (held.lease(tables.view("sales", "f00d")) is None) == tables.local
    assert held.lease(tables.realtime(1, "sales")) is None
    assert held.lease(tables.control("gaps")) is None


def test_a_lease_on_a_storage_that_is_away_ends_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "root").touch()
    with pytest.raises(TandemError, match="cannot create the folder"):
        take(Tables(str(tmp_path / "root" / "below")), "tandem archive")
