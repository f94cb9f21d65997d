"""A table that is dropped from an object store is whole, empty, or cannot be opened, wherever the run was killed or paused."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tandem.batch.runtime import delta_commits, scratch
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.infra.storage.object_store import ObjectStore
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import open_table
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.delta.location import Location
from tandem.ledger.delta.one_writer.refuse_other_writers import Fenced
from tests.infra.storage.s3 import a_bucket
from tests.killed import Killed
from tests.ledger.delta.held import held

VERSIONS = 12


@dataclass
class KilledAfter:
    """A storage whose client is killed after some deletions.

    A store deletes the names of one request in any order. Here a log's newest entry goes first, which leaves an older version.
    """

    storage: Any
    deletions: int

    def __getattr__(self, name: str) -> Any:
        return getattr(self.storage, name)

    def delete(self, names: Iterable[str]) -> None:
        for name in sorted(names, reverse=True):
            if not self.deletions:
                raise Killed
            self.deletions -= 1
            self.storage.delete([name])


@pytest.fixture(scope="module")
def bucket() -> Iterator[Tables]:
    with a_bucket() as (url, options):
        yield Tables(url, options)


def written(tables: Tables, address: str) -> str:
    """A table of several versions, with a checkpoint on the way."""
    for number in range(VERSIONS):
        write_deltalake(address, pa.table({"n": [number]}), mode="append", storage_options=dict(tables.options))
        if number == VERSIONS // 2:
            handle = open_table(tables, address)
            assert handle is not None
            handle.create_checkpoint()
    return address


def data(tables: Tables, address: str) -> list[str]:
    """The data files beside a table, active or not."""
    prefix = f"{tables.name(address)}/"
    names = [head.name for head in tables.storage().list_after(tables.name(address))]
    return [name.removeprefix(prefix) for name in names if "/_delta_log/" not in name]


def add(tables: Tables, address: str, n: int) -> None:
    """Claim the table, then write a file and commit it."""
    schema = pa.schema([("n", pa.int64())])
    handle = delta_commits.make_table(tables, address, schema)
    with TableFile(Location.of(tables, address), schema) as file:
        file.write(pa.table({"n": [n]}))
    assert file.written is not None
    delta_commits.add_files(handle, [file.written], lease=tables.lease(address))


def rows(tables: Tables, address: str) -> list[int]:
    handle = open_table(tables, address)
    assert handle is not None
    return sorted(n for path in delta_tables.files(handle) for n in delta_tables.read_file(handle, path)["n"].to_pylist())


@pytest.mark.slow
def test_a_realtime_drop_that_was_killed_shows_no_older_version_and_is_finished_by_the_next_run(
    bucket: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for deletions in (0, 1, 2, 3, 5, 8, 14, 20):
        tables = held(bucket.below(f"at-{deletions}"), "views")
        address = written(tables, tables.realtime(1, "sales"))
        with monkeypatch.context() as patch:
            real = tables.storage()
            patch.setattr(Tables, "storage", lambda _, real=real, n=deletions: KilledAfter(real, n))
            with pytest.raises(Killed):
                scratch.drop(tables, address)
        try:
            handle = open_table(tables, address)
        except Unreadable:
            seen.add("cannot be opened")
        else:
            assert handle is None or handle.version() == VERSIONS - 1
            seen.add("gone" if handle is None else "whole")
        scratch.clear(tables)
        assert {head.name.split("/")[0] for head in tables.storage().list_after("")} == {"control"}
        assert open_table(tables, address) is None
    assert seen >= {"whole", "cannot be opened"}


def test_a_drop_takes_the_whole_table_and_no_other(bucket: Tables) -> None:
    tables = held(bucket.below("others"), "views")
    address, other = written(tables, tables.view("sales", "f00d")), written(tables, tables.view("sales2", "f00d"))
    assert scratch.drop(tables, address)
    assert not scratch.drop(tables, address)
    assert (rows(tables, address), data(tables, address)) == ([], [])
    assert rows(tables, other) == list(range(VERSIONS))


def test_a_drop_that_was_killed_is_finished_by_the_next_one(bucket: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    tables = held(bucket.below("killed"), "views")
    address = written(tables, tables.view("sales", "f00d"))
    with monkeypatch.context() as patch:
        patch.setattr(ObjectStore, "delete", _killed)
        with pytest.raises(Killed):
            scratch.drop(tables, address)
    assert rows(tables, address) == []
    assert len(data(tables, address)) == VERSIONS
    assert scratch.drop(tables, address)
    assert data(tables, address) == []


def test_an_emptied_table_is_written_again_as_a_new_one(bucket: Tables) -> None:
    tables = held(bucket.below("again"), "views")
    address = tables.view("sales", "f00d")
    add(tables, address, 1)
    assert scratch.drop(tables, address)
    add(tables, address, 2)
    assert rows(tables, address) == [2]


def test_a_holder_that_is_paused_before_it_empties_a_table_is_fenced(bucket: Tables) -> None:
    late = held(bucket.below("late"), "views", what="tandem maintain")
    address = late.view("sales", "f00d")
    add(late, address, 1)
    fresh = held(bucket.below("late"), "views", what="tandem apply")
    add(fresh, address, 2)
    with pytest.raises(Fenced, match="is written by tandem apply"):
        scratch.drop(late, address)
    assert rows(fresh, address) == [1, 2]


def test_a_holder_that_is_paused_before_it_deletes_files_deletes_none_that_is_committed_meanwhile(
    bucket: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = held(bucket.below("paused"), "views", what="tandem maintain")
    address = late.view("sales", "f00d")
    add(late, address, 1)
    real: Callable[..., None] = ObjectStore.delete

    def paused(store: ObjectStore, names: Iterable[str]) -> None:
        listed = list(names)
        monkeypatch.setattr(ObjectStore, "delete", real)
        add(held(bucket.below("paused"), "views", what="tandem apply"), address, 2)
        real(store, listed)

    monkeypatch.setattr(ObjectStore, "delete", paused)
    assert scratch.drop(late, address)
    assert rows(late, address) == [2]


def test_a_holder_clears_no_scratch_file_of_the_next_one(bucket: Tables) -> None:
    late = held(bucket.below("scratch"), "views")
    fresh = held(bucket.below("scratch"), "views")
    for tables in (late, fresh):
        scratch.scratch(tables).storage().put_if_absent("part", b"rows")
    assert scratch.clear(late).files == 1
    assert scratch.scratch(fresh).storage().head("part") is not None
    assert scratch.clear(fresh).files == 1


def _killed(*_: object) -> None:
    raise Killed
