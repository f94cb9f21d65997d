"""The batch side of an answer: the states of one batch version, read without Spark.

delta-rs says which files hold the version and Arrow reads them, so that an object store works like a folder.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable

from ledger.delta import Unreadable, file_system, open_table, unreadable
from ledger.tables import Tables
from serving.selection import Selection

HELD_BYTES = 64 * 2**20
"""A version of at most this many bytes of files is read once and kept; a larger one is filtered as it is read, each time."""


@dataclass
class BatchStates:
    """The states of one version of one view's table, in no particular order; `schema` is the view's state schema.

    A published version never changes (upkeep may rewrite its files, never its rows), so what was read is kept. Version 0 is
    the empty batch.
    """

    tables: Tables
    address: str
    version: int
    schema: pa.Schema
    rows: int | None = None
    """How many rows the version has, where its publication says so."""
    _held: pa.Table | None = field(default=None, init=False, repr=False)

    def read(self, selection: Selection) -> pa.Table:
        """The selected states. Raises Unreadable."""
        if self._held is None and self.version == 0:
            self._held = pa.Table.from_batches([], self.schema)
        if self._held is not None:
            return selection.filter(self._held)
        try:
            try:
                return self._read(selection)
            except FileNotFoundError:  # upkeep rewrote the files between our look at the log and at them
                return self._read(selection)
        except (OSError, pa.ArrowException) as error:
            unreadable(self.address, error)

    def _read(self, selection: Selection) -> pa.Table:
        handle, mine = _opened(self.tables, self.address, self.version)
        found = sum(mine["num_records"].to_pylist())
        if self.rows is not None and found != self.rows:
            raise Unreadable(
                f"table {self.address} has {found} of the {self.rows} rows of batch version {self.version}; restore it"
            )
        states = (states for path in mine["path"].to_pylist() for states in self._row_groups(handle, path))
        if sum(mine["size_bytes"].to_pylist()) > HELD_BYTES:
            return self._whole(selection.filter(some) for some in states)
        self._held = self._whole(states)
        return selection.filter(self._held)

    def _row_groups(self, handle: DeltaTable, path: str) -> Iterator[pa.Table]:
        # Not pyarrow.dataset: importing it imports pandas, and the files are not sorted by anything that it could skip by.
        with file_system(handle).open_input_file(path) as opened:
            file = pq.ParquetFile(opened, page_checksum_verification=True)
            for group in range(file.num_row_groups):
                yield file.read_row_group(group, columns=self.schema.names).select(self.schema.names).cast(self.schema)

    def _whole(self, tables: Iterator[pa.Table]) -> pa.Table:
        return pa.concat_tables([pa.Table.from_batches([], self.schema), *tables])


def files_of(tables: Tables, address: str, version: int) -> list[tuple[str, int]]:
    """The files of a batch version of a view's table, each with its size in bytes. Raises Unreadable."""
    _, mine = _opened(tables, address, version)
    return list(zip(mine["path"].to_pylist(), mine["size_bytes"].to_pylist(), strict=True))


def _opened(tables: Tables, address: str, version: int) -> tuple[DeltaTable, pa.Table]:
    """The view's table, and what its log says of the version's files."""
    handle = open_table(tables, address)
    if handle is None:
        raise Unreadable(f"table {address} is gone, and with it batch version {version}")
    actions = pa.table(handle.get_add_actions(flatten=True))
    return handle, actions.filter(pc.equal(actions["partition.batch_version"].cast(pa.int64()), version))
