"""A project of a view with N keys and a small one: published as a recompute leaves it, in files that no Spark wrote."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake

from tandem.batch.fold.fold_job import VERSION
from tandem.batch.fold.write_states import write_states
from tandem.batch.runtime import delta_commits
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish import adoption
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.realtime import commit_files
from tandem.ledger.realtime.commits import Commit
from tandem.ledger.realtime.compaction import RECENT
from tandem.ledger.realtime_writer import Writer
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.kernel.kernel import merge_states
from tandem.views.project import project
from tandem.views.view import View, state_schema
from tandem.views.windows import WINDOW_COLUMNS

Numbers = npt.NDArray[np.int64]

SOURCE: Final = "requests"
VIEW: Final = "pages"
SMALL: Final = "minutes"
MINUTES: Final = 2_000
"""Windows of the small view."""
AT: Final = datetime(2026, 11, 1, tzinfo=UTC)
_MINUTE_US: Final = 60_000_000
_CUT: Final = Position.of({("T", 0): 1})


def page(number: int) -> str:
    """The key of this number."""
    return f"/shop/item/{number:08}"


def pages(numbers: Numbers) -> pa.Array:
    """The keys of these numbers."""
    texts = pc.utf8_lpad(arrays.from_numpy(numbers.astype(np.int64), pa.int64()).cast(pa.string()), 8, "0")
    return pc.binary_join_element_wise("/shop/item/", texts, "")


def states(view: View, numbers: Numbers, times: Numbers | None = None) -> pa.Table:
    """What requests of these pages, each different, fold into: one of each, or this many; number n's is of n % 1000 bytes."""
    schema = state_schema(view)
    largest, hits = numbers % 1000, np.ones(len(numbers), np.int64) if times is None else times
    values = {"hits": hits, "mean__count": hits, "largest": largest, "bytes": hits * largest, "mean__sum": hits * largest}
    columns = {name: arrays.from_numpy(one.astype(np.int64), pa.int64()) for name, one in values.items()}
    columns["page"] = pages(numbers)
    columns |= {name: pa.nulls(len(numbers), schema.field(name).type) for name in ("window_start", "window_end")}
    return pa.Table.from_arrays([columns[field.name].cast(field.type) for field in schema], schema=schema)


def by_minute(view: View, numbers: Numbers, times: Numbers | None = None) -> pa.Table:
    """The same of the small view: requests of page n are in minute n % MINUTES."""
    schema, minutes, hits = state_schema(view), numbers % MINUTES, np.ones(len(numbers), np.int64) if times is None else times
    counted, of_bytes = (np.bincount(minutes, weights, MINUTES).astype(np.int64) for weights in (hits, hits * (numbers % 1000)))
    there = np.flatnonzero(counted)
    start = there * _MINUTE_US + int(AT.timestamp()) * 1_000_000
    values = {"window_start": start, "window_end": start + _MINUTE_US, "hits": counted[there], "bytes": of_bytes[there]}
    columns = [arrays.from_numpy(values[field.name].astype(np.int64), pa.int64()).cast(field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def publish(folder: Path, keys: int) -> Tables:
    """Write the project and its tables into a folder: the batch view of N keys, in files as the fold writes them, the small one
    of the same requests, and a realtime table.
    """
    folder.mkdir(parents=True)
    (folder / "tandem.toml").touch()
    shutil.copy(Path(__file__).with_name("definitions.py"), folder / "definitions.py")
    definitions, tables = project.load(folder), Tables(str(folder / ".tandem" / "tables"))
    live = adoption.live(tables, lambda: definitions, by="bench", at=AT)
    handle = commit_files.open_or_create(tables, live.release, SOURCE)
    delta_tables.conditional_append(handle, commit_files.to_rows(Commit(LOG_START, _CUT, 1, "bridge", at=AT, by="bench")))
    address, view = tables.view(VIEW, live.views[VIEW].fingerprint), definitions.views[VIEW]
    schema = state_schema(view).append(pa.field(VERSION, pa.int64()))
    handle_of_pages = delta_commits.make_table(tables, address, schema, partition_by=VERSION, bounded=WINDOW_COLUMNS)
    order = np.random.default_rng(7).permutation(keys)
    delta_commits.add_files(handle_of_pages, write_states(Location.of(tables, address), view, states(view, order), 1))
    small = by_minute(definitions.views[SMALL], np.arange(keys))
    write_version(tables, SMALL, live.views[SMALL].fingerprint, 1, small)
    publish_version(tables, 1, {VIEW: keys, SMALL: small.num_rows}, _CUT)
    return tables


def write_version(tables: Tables, name: str, fingerprint: str, version: int, of: pa.Table) -> None:
    """Append a batch version of a view."""
    numbered = of.append_column("batch_version", arrays.from_numpy(np.full(len(of), version, np.int64), pa.int64()))
    write_deltalake(tables.view(name, fingerprint), numbered, mode="append", partition_by=["batch_version"])


def publish_version(tables: Tables, version: int, rows: Mapping[str, int], cut: Position) -> None:
    """Publish batch versions that count everything below a cut, each of N rows."""

    def derive(parent: Publication | None) -> Publication | None:
        if parent is None:
            return None
        views = {name: BatchView(view.fingerprint, (BatchPart(version, rows[name], cut),)) for name, view in parent.views.items()}
        return replace(parent, kind="recompute", cuts={SOURCE: cut}, views=views)

    Publications(tables).publish(derive)


def files(tables: Tables, view: str) -> list[str]:
    """The active files of a view's table."""
    live = Publications(tables).latest()
    address = tables.view(view, live.views[view].fingerprint) if live else ""
    return DeltaTable(address).file_uris()


class PublishedTail:
    """The realtime table, of which this is the writer."""

    def __init__(self, folder: Path, tables: Tables) -> None:
        live = Publications(tables).latest()
        assert live is not None  # published above
        self._views = project.load(folder).views
        self.fingerprints = {name: view.fingerprint for name, view in live.views.items()}
        self._writer = Writer.claim(tables, live.release, SOURCE, by="bench", at=AT)
        self.cut = live.cut(SOURCE)

    def commit(self, numbers: Numbers) -> None:
        """One more request of each of these pages."""
        folded = {name: _FOLDS[name](view, numbers) for name, view in self._views.items()}
        start = self.end
        end = Position.of({("T", 0): start[("T", 0)] + len(numbers)})
        partials = {self.fingerprints[name]: to_ipc(some) for name, some in folded.items()}
        self._writer.append(Commit(start, end, self._writer.epoch, "fold", at=AT, by="bench", partials=partials))

    @property
    def end(self) -> Position:
        """Where the next commit starts."""
        return self._writer.end

    def compact(self) -> None:
        """Make few files of many, as the speed layer does between micro-batches; `cut` is the live one."""
        views = {self.fingerprints[name]: view for name, view in self._views.items()}

        def merged(fingerprint: str, partials: Sequence[bytes]) -> bytes:
            return to_ipc(merge_states(views[fingerprint], [from_ipc(one) for one in partials]))

        self._writer.compact(merged, live=self.cut, at=AT, recent=RECENT)


_FOLDS: Final[dict[str, Callable[[View, Numbers], pa.Table]]] = {VIEW: states, SMALL: by_minute}
