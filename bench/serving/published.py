"""A project whose one view has so many keys: published as a recompute leaves it, in files that no run of Spark wrote."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from ledger import commit_files, delta, first, publications
from ledger.commits import Commit
from ledger.parts import BatchView, Part
from ledger.positions import LOG_START, Position
from ledger.publications import Publication
from ledger.realtime import Writer
from ledger.tables import Tables
from views import arrays, project
from views.kernel import merge_states
from views.view import View, state_schema
from views.wire import to_ipc

Numbers = npt.NDArray[np.int64]

SOURCE: Final = "requests"
VIEW: Final = "pages"
AT: Final = datetime(2026, 11, 1, tzinfo=UTC)
_FILE: Final = 1_000_000
_PIECE: Final = 100_000
_CUT: Final = Position.of({("T", 0): 1})


def page(number: int) -> str:
    """The key of this number."""
    return f"/shop/item/{number:08}"


def states(view: View, numbers: Numbers) -> pa.Table:
    """What a request of these pages, each different, folds into: number n's is of n % 1000 bytes."""
    schema = state_schema(view)
    of_bytes = arrays.from_numpy((numbers % 1000).astype(np.int64), pa.int64())
    ones = arrays.from_numpy(np.ones(len(numbers), np.int64), pa.int64())
    columns = {"page": pa.array([page(number) for number in numbers.tolist()]), "hits": ones, "mean__count": ones}
    nothing = {name: pa.nulls(len(numbers), schema.field(name).type) for name in ("window_start", "window_end")}
    chosen = {**dict.fromkeys(schema.names, of_bytes), **columns, **nothing}
    return pa.Table.from_arrays([chosen[field.name].cast(field.type) for field in schema], schema=schema)


def publish(folder: Path, keys: int) -> Tables:
    """Write the project and its tables into a folder: the batch view of so many keys, in no order, and a realtime table."""
    folder.mkdir(parents=True)
    (folder / "tandem.toml").touch()
    shutil.copy(Path(__file__).with_name("definitions.py"), folder / "definitions.py")
    definitions, tables = project.load(folder), Tables(str(folder / ".tandem"))
    live = first.live(tables, lambda: definitions, by="bench", at=AT)
    handle = commit_files.open_or_create(tables, live.release, SOURCE)
    delta.conditional_append(handle, commit_files.to_rows(Commit(LOG_START, _CUT, 1, "bridge", at=AT, by="bench")))
    fingerprint, view = live.views[VIEW].fingerprint, definitions.views[VIEW]
    order = np.random.default_rng(7).permutation(keys)
    for start in range(0, keys, _FILE):
        reader = pa.RecordBatchReader.from_batches(_written(view, order[:0]).schema, _batches(view, order[start : start + _FILE]))
        write_deltalake(tables.view(VIEW, fingerprint), reader, mode="append", partition_by=["batch_version"])

    def derive(parent: Publication | None) -> Publication | None:
        return (
            None
            if parent is None
            else replace(
                parent, kind="recompute", cuts={SOURCE: _CUT}, views={VIEW: BatchView(fingerprint, (Part(1, keys, _CUT),))}
            )
        )

    publications.publish(tables, derive)
    return tables


def files(tables: Tables) -> list[str]:
    """The active files of the view's table."""
    live = publications.latest(tables)
    address = tables.view(VIEW, live.views[VIEW].fingerprint) if live else ""
    return DeltaTable(address).file_uris()


class Tail:
    """The view's realtime table, of which this is the writer."""

    def __init__(self, folder: Path, tables: Tables) -> None:
        live = publications.latest(tables)
        assert live is not None  # published above
        self._view, self._fingerprint = project.load(folder).views[VIEW], live.views[VIEW].fingerprint
        self._writer = Writer.claim(tables, live.release, SOURCE, by="bench", at=AT)

    def commit(self, numbers: Numbers) -> None:
        """One more request of each of these pages."""
        folded = merge_states(self._view, [states(self._view, numbers)])
        start = self._writer.end
        end = Position.of({("T", 0): start[("T", 0)] + len(numbers)})
        partials = {self._fingerprint: to_ipc(folded)}
        self._writer.append(Commit(start, end, self._writer.epoch, "fold", at=AT, by="bench", partials=partials))


def _batches(view: View, numbers: Numbers) -> Iterator[pa.RecordBatch]:
    for start in range(0, len(numbers), _PIECE):
        yield from _written(view, numbers[start : start + _PIECE]).to_batches()


def _written(view: View, numbers: Numbers) -> pa.Table:
    version = arrays.from_numpy(np.ones(len(numbers), np.int64), pa.int64())
    return states(view, numbers).append_column("batch_version", version)
