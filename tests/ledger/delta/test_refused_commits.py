"""A commit that the store refuses without a reason is made again: S3 answers 409 while another request for it is in flight.

A commit that landed, or that another writer was faster to make, is a conflict, as ever.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Conflict, Unwritable
from tandem.ledger.delta.journal import Journal
from tests.infra.storage.azure import azure_container
from tests.infra.storage.go_s3 import go_bucket
from tests.infra.storage.google import google_bucket
from tests.infra.storage.quick_s3 import quick_bucket
from tests.infra.storage.s3 import WRITES, Faults, a_bucket

SCHEMA = pa.schema([("x", pa.int64())])
REFUSALS = ("conflict", "taken before")


@pytest.fixture
def store() -> Iterator[tuple[Faults, Tables]]:
    faults = Faults()
    with a_bucket(faults, of=quick_bucket) as (url, options):
        yield faults, Tables(url, {**options, "backoff_config.init_backoff": "1ms"})


def rows(tables: Tables, address: str) -> list[int]:
    handle = delta_tables.open_table(tables, address)
    assert handle is not None
    return sorted(row["x"] for path in delta_tables.files(handle) for row in delta_tables.read_file(handle, path).to_pylist())


@pytest.mark.parametrize("fault", REFUSALS)
@pytest.mark.parametrize("times", [1, 2])
def test_a_table_is_created_and_a_commit_lands_once(store: tuple[Faults, Tables], fault: str, times: int) -> None:
    faults, tables = store
    address = tables.control("gaps")
    faults.plan(fault, ("PUT",), lambda number: number <= times, repeated=True)
    handle = delta_tables.create_table(tables, address, SCHEMA, {})
    faults.plan(fault, ("PUT",), lambda number: number == 2)
    delta_tables.conditional_append(handle, pa.table({"x": [1]}, SCHEMA))
    assert faults.injured == [2]
    faults.plan(fault, ("PUT",), lambda number: number == 1)
    delta_tables.commit_actions(handle, [])
    assert faults.injured == [1]
    assert rows(tables, address) == [1]


def test_a_store_that_refuses_each_time_ends_with_a_sentence(store: tuple[Faults, Tables]) -> None:
    faults, tables = store
    faults.plan("conflict", ("PUT",), lambda _: True, repeated=True)
    with pytest.raises(Unwritable, match="cannot create table"):
        delta_tables.create_table(tables, tables.control("gaps"), SCHEMA, {})
    faults.rest()
    handle = delta_tables.create_table(tables, tables.control("gaps"), SCHEMA, {})
    faults.plan("conflict", ("PUT",), lambda _: True, repeated=True)
    with pytest.raises(Conflict):
        delta_tables.commit_actions(handle, [])
    faults.rest()
    assert delta_tables.reopen(handle).version() == 0


@pytest.mark.slow
@pytest.mark.parametrize("of", [go_bucket, azure_container, partial(azure_container, "az"), google_bucket])
def test_another_server_keeps_the_laws_of_commits(of: Callable[..., Any]) -> None:
    """Of writers at one version one commits, and an entry of a journal is added once for each writer."""
    with a_bucket(of=of) as (url, options):
        tables = Tables(url, options)
        address = tables.control("gaps")
        delta_tables.create_table(tables, address, SCHEMA, {})
        handles = [delta_tables.open_table(tables, address) for _ in range(8)]

        def commit(number: int) -> bool:
            handle = handles[number]
            assert handle is not None
            try:
                delta_tables.conditional_append(handle, pa.table({"x": [number]}, SCHEMA))
            except Conflict:
                return False
            return True

        with ThreadPoolExecutor(8) as threads:
            won = [number for number, landed in enumerate(threads.map(commit, range(8))) if landed]
        assert len(won) == 1
        assert rows(tables, address) == won
        journal = Journal(tables, tables.control("releases"), SCHEMA)
        with ThreadPoolExecutor(8) as threads:
            added = list(threads.map(lambda number: journal.add(lambda _: {"x": number}), range(24)))
        assert sorted(row["number"] for row in added if row) == list(range(1, 25))
        assert sorted(row["x"] for row in journal.read().rows()) == list(range(24))


@pytest.mark.parametrize("fault", ["taken after", "reset after"])
def test_a_commit_that_landed_is_not_made_again(store: tuple[Faults, Tables], fault: str) -> None:
    faults, tables = store
    address = tables.control("gaps")
    handle = delta_tables.create_table(tables, address, SCHEMA, {})
    faults.plan(fault, WRITES, lambda number: number == 2)
    with pytest.raises(Conflict):
        delta_tables.conditional_append(handle, pa.table({"x": [1]}, SCHEMA))
    faults.rest()
    assert rows(tables, address) == [1]
