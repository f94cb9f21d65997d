"""Commands of two machines exclude each other on a bucket; a killed one does not delay the next one on its own machine."""

import threading
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path

import pytest

from tandem.batch.runtime.table_locks import hold, locked
from tandem.infra.settings import BatchSettings, Settings, StorageSettings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.one_writer import write_leases, write_locks
from tandem.ledger.delta.one_writer.refuse_other_writers import Unclaimed
from tandem.ledger.delta.one_writer.write_locks import LockTimeout
from tests.infra.storage.s3 import a_bucket
from tests.ledger.tiny import AT

_NUMBERS = count()


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[str, Mapping[str, str]]]:
    with a_bucket() as found:
        yield found


@pytest.fixture
def machines(bucket: tuple[str, Mapping[str, str]], tmp_path: Path) -> tuple[Settings, Settings]:
    url, options = bucket
    storage = StorageSettings(root=f"{url}/{next(_NUMBERS)}", options=dict(options))
    one, other = (
        Settings(state=str(tmp_path / name), storage=storage, batch=BatchSettings(lock_wait_s=0)) for name in ("a", "b")
    )
    return one, other


def test_a_command_of_another_machine_waits_for_the_holder_and_names_it(machines: tuple[Settings, Settings]) -> None:
    one, other = machines
    with locked(one, "archive", what="tandem import", now=lambda: AT, say=print) as tables:
        assert tables.lease(tables.archive("sales")) is not None
        with (
            pytest.raises(LockTimeout, match=r"tandem import \(pid \d+ on .*still holds the lease of 'archive' tables"),
            locked(other, "archive", what="tandem maintain", now=lambda: AT, say=print),
        ):
            pass
    with locked(other, "archive", what="tandem maintain", now=lambda: AT, say=print):
        pass
    with pytest.raises(Unclaimed):
        Tables.of(one).lease(tables.archive("sales"))


@pytest.mark.slow
def test_a_held_lease_is_renewed_by_a_thread_which_tells_of_a_loss(machines: tuple[Settings, Settings]) -> None:
    tables, told = Tables.of(machines[0]), threading.Event()
    with write_locks.own() as acquire:
        lease = hold(tables, "views", acquire, what="tandem maintain", at=AT, patience=0, say=print, lost=told.set)
        assert lease is not None
        (thread,) = (thread for thread in threading.enumerate() if thread.name == "lease views")
        lease.until = 0  # as after a pause
        assert told.wait(60)
        lease.release()
        thread.join(60)
        assert not thread.is_alive()


def test_what_a_killed_command_of_this_machine_held_is_free_at_once(machines: tuple[Settings, Settings]) -> None:
    one, other = machines
    tables = Tables.of(one)
    with write_locks.own() as acquire:
        lease = hold(tables, "views", acquire, what="tandem maintain", at=AT, patience=0, say=print)
    assert lease is not None  # its lock is free now, and nobody has released the lease
    with pytest.raises(LockTimeout), locked(other, "views", what="tandem maintain", now=lambda: AT, say=print):
        pass
    with locked(one, "views", what="tandem maintain", now=lambda: AT, say=print):
        found = write_leases.read(tables, "views")
    assert found is not None
    assert found.token == lease.token + 1
    lease.release()


def test_a_copy_of_a_lock_file_is_not_the_lock_file(machines: tuple[Settings, Settings]) -> None:
    """The state folder was copied, perhaps to another machine of the same name: what held it may still run there."""
    one, _ = machines
    tables = Tables.of(one)
    with write_locks.own() as acquire:
        hold(tables, "views", acquire, what="tandem maintain", at=AT, patience=0, say=print)
    lock = tables.lock("views")
    copied = lock.with_name("copied")
    copied.write_bytes(lock.read_bytes())
    copied.rename(lock)
    with pytest.raises(LockTimeout), locked(one, "views", what="tandem maintain", now=lambda: AT, say=print):
        pass


def test_tables_of_a_folder_have_no_lease(tmp_path: Path) -> None:
    tables = Tables.of(Settings(state=str(tmp_path)))
    with write_locks.own() as acquire:
        assert hold(tables, "views", acquire, what="tandem maintain", at=AT, patience=0, say=print) is None
    assert write_leases.names(tables) == []
