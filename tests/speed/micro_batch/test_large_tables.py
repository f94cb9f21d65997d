"""Look-ups in a table that is in files agree with nested loops, however its states are divided among files and commits."""

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

import msgspec
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from tandem.infra.settings import Settings
from tandem.infra.settings.toml_tables.spark import SparkSettings
from tandem.infra.settings.toml_tables.storage import StorageSettings
from tandem.ledger import states_by_key
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import vacuum
from tandem.ledger.delta.delta_tables import open_table
from tandem.ledger.delta.location import Location
from tandem.ledger.states_by_key import StatesByKey, in_order, load_all, write
from tandem.speed.micro_batch import task
from tandem.speed.micro_batch.task import LargeTable
from tandem.speed.source.overflow import overflow_of_layer
from tandem.views.arrow.arrays import to_ipc
from tandem.views.composite.table import looked_up
from tandem.views.kernel.kernel import Partial, merge, merge_states, partial
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.view import View, state_schema
from tests.infra.storage.quick_s3 import quick_bucket
from tests.together import test_tables_are_looked_up as looking
from tests.together.split_logs import split_partials

MUCH = 1 << 30


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches, so that the states of many keys span two."""
    monkeypatch.setattr(states_by_key, "_BATCH_ROWS", 16)


def file(view: View, states: Sequence[pa.Table], folder: Path) -> StatesByKey:
    return write(view, states, Location(str(folder)), folder)


@pytest.mark.each_run("by time*", "rejecting*", "now by log*")
@pytest.mark.parametrize(
    ("name", "piece_bytes"), [("by time", MUCH), ("by log", MUCH), ("rejecting", 0), ("now", MUCH), ("now by log", 0)]
)
def test_look_ups_in_files_and_commits_agree_with_nested_loops(
    name: str, piece_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states_by_key, "_PIECE_BYTES", piece_bytes)
    view, (fees, trips) = looking.VIEWS[name], looking.chains(7)
    ((versions, of),) = looked_up(view).items()
    first, second, newest = (fold.states for fold in split_partials(of, fees))
    parts = file(of, [first.slice(0, 9), first.slice(9)], tmp_path), file(of, [second], tmp_path)
    table = LargeTable(parts, to_ipc(in_order(of, newest)))
    folded = list[Partial]()
    for piece in looking.events_of(trips):
        read = task.tables({versions: table}, [view], piece)
        folded.append(partial(view, piece, EMPTY, versions=read))
    whole = merge(view, folded)
    counted_fees, counted_trips = ([event for some in each.counted() for event in some] for each in (fees, trips))
    expected, rejected = looking.by_nested_loops(name, counted_trips, counted_fees, Counter())
    assert looking.rows(view, whole) == expected
    assert Counter(whole.rejected) == rejected


def test_a_few_events_read_only_the_versions_of_their_keys(tmp_path: Path) -> None:
    view, (fees, trips) = looking.VIEWS["by time"], looking.chains(7)
    ((versions, of),) = looked_up(view).items()
    states = merge_states(of, [fold.states for fold in split_partials(of, fees)])
    table = LargeTable((file(of, [states], tmp_path),), to_ipc(in_order(of, states.slice(0, 0))))
    events = looking.events_of(trips)[0]
    for _ in range(20):
        some = events.slice(Random().randrange(events.num_rows - 5), 5)
        read = task.tables({versions: table}, [view], some)[versions]
        assert set(read["trial"].to_pylist()) <= set(some["trial"].to_pylist())
    assert task.tables({versions: table}, [view], events.slice(0, 0))[versions].num_rows == 0
    assert task.tables({versions: table}, [], events) == {}, "a view that a hot tail leaves out reads nothing"


@pytest.mark.parametrize("piece_bytes", [0, MUCH])
def test_a_file_has_each_state_once_in_the_order_of_hashes(
    piece_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states_by_key, "_PIECE_BYTES", piece_bytes)
    folder = tmp_path
    (of,) = looked_up(looking.VIEWS["by time"]).values()
    states = merge_states(of, [fold.states for fold in split_partials(of, looking.chains(7)[0])])
    stored = file(of, [states.slice(0, 50), states.slice(50)], folder)
    read = pa.concat_tables(load_all(stored))
    assert stored.rows == states.num_rows == read.num_rows
    assert read.schema == state_schema(of)
    assert read.equals(in_order(of, states).drop_columns(["_hash"]))
    assert {path.suffix for path in folder.iterdir()} == {".arrow"}, "no temporary file is left"
    stored.delete()
    assert not [*folder.iterdir()]
    assert pa.concat_tables(load_all(stored)).equals(read), "a process that has mapped a file goes on"


def test_tasks_on_other_hosts_read_a_copy_of_a_file_below_the_realtime_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    (of,) = looked_up(looking.VIEWS["by time"]).values()
    states = merge_states(of, [fold.states for fold in split_partials(of, looking.chains(7)[0])]).slice(0, 300)
    with quick_bucket() as (url, options):
        tables, root = Tables(url, options), StorageSettings(root=url, options=dict(options))
        settings = Settings(state=str(tmp_path), storage=root, spark=SparkSettings(master="spark://10.0.0.5:7077"))
        address = tables.realtime(1, "trips")
        write_deltalake(address, pa.table({"n": [1]}), storage_options=dict(options))
        killed = overflow_of_layer(settings, tables, address, tmp_path / "killed").write(of, [states])
        overflow = overflow_of_layer(settings, tables, address, tmp_path / "next")
        assert overflow.place.storage().head(killed.path) is None, "the next writer deletes what a killed one has left"
        stored = overflow.write(of, [states])
        handle = open_table(tables, address)
        assert handle is not None
        assert vacuum(handle, hours=0).files == 0, "a vacuum of the table leaves the file"
        sent = pickle.loads(pickle.dumps(stored))
        assert pa.concat_tables(load_all(sent)).equals(in_order(of, states).drop_columns(["_hash"]))
        here = tmp_path / "here"
        local = msgspec.structs.replace(settings, spark=SparkSettings())
        assert overflow_of_layer(local, tables, address, here).place == Location(str(here))
