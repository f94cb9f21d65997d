"""A table that is dropped from an object store is there whole, or cannot be opened, wherever the run was killed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from batch.runtime import scratch
from ledger.delta.addresses import Tables
from ledger.delta.delta_tables import Unreadable, open_table
from tests.infra.storage.s3 import a_bucket

VERSIONS = 12


class Killed(BaseException):
    pass


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


def written(tables: Tables, name: str) -> str:
    """A table of several versions, with a checkpoint on the way."""
    address = tables.view(name, "f00d")
    for number in range(VERSIONS):
        write_deltalake(address, pa.table({"n": [number]}), mode="append", storage_options=dict(tables.options))
        if number == VERSIONS // 2:
            handle = open_table(tables, address)
            assert handle is not None
            handle.create_checkpoint()
    return address


def test_a_drop_that_was_killed_shows_no_older_version_and_is_finished_by_the_next_run(
    bucket: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = set()
    for deletions in (0, 1, 2, 3, 5, 8, 14, 20):
        tables = bucket.below(f"at-{deletions}")
        address = written(tables, "sales")
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
        assert [head.name for head in tables.storage().list_after("")] == []
        assert open_table(tables, address) is None
    assert seen >= {"whole", "cannot be opened"}


def test_a_drop_takes_the_whole_table_and_no_other(bucket: Tables) -> None:
    tables = bucket.below("others")
    address, other = written(tables, "sales"), written(tables, "sales2")
    assert scratch.drop(tables, address)
    assert not scratch.drop(tables, address)
    assert open_table(tables, address) is None
    handle = open_table(tables, other)
    assert handle is not None
    assert handle.version() == VERSIONS - 1
    assert {head.name.split("/")[0] for head in tables.storage().list_after("")} == {"views"}
