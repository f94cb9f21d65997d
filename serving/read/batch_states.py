"""The batch side of an answer: the states of a view's batch versions, read without Spark.

delta-rs lists the files of the version and Arrow reads them, so that an object store works like a folder.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import storage
from tandem.ledger.delta.errors import unreadable
from tandem.ledger.publish.batch_parts import BatchPart, files_of, still_live
from tandem.serving.read.selection import Selection

HELD_BYTES = 64 * 2**20
"""A part of at most this many bytes is read once and cached; a larger one is filtered as it is read, each time."""


@dataclass
class BatchStates:
    """The live states of a view's table, in no particular order; `schema` is the view's state schema.

    A published part never changes (maintenance may rewrite its files, never its rows), so read parts are cached.
    """

    tables: Tables
    address: str
    schema: pa.Schema
    _held: dict[BatchPart, pa.Table] = field(default_factory=dict, init=False, repr=False)

    def read(self, parts: Sequence[BatchPart], selection: Selection) -> pa.Table:
        """The selected states of the parts of a publication. Raises Unreadable."""
        self._held = {part: held for part, held in self._held.items() if part in parts}
        found = [pa.Table.from_batches([], self.schema)]
        for number, part in enumerate(parts):
            found.append(still_live(self._part(part, selection), parts[number + 1 :]))
        return pa.concat_tables(found)

    def _part(self, part: BatchPart, selection: Selection) -> pa.Table:
        if part in self._held:
            return selection.filter(self._held[part])
        try:
            try:
                return self._read(part, selection)
            except FileNotFoundError:  # maintenance rewrote the files after the log was read
                return self._read(part, selection)
        except (OSError, pa.ArrowException) as error:
            unreadable(self.address, error)

    def _read(self, part: BatchPart, selection: Selection) -> pa.Table:
        handle, files = files_of(self.tables, self.address, part)
        states = (states for file in files for states in row_groups(handle, file.path, self.schema))
        if sum(file.size for file in files) > HELD_BYTES:
            return self._whole(selection.filter(some) for some in states)
        self._held[part] = self._whole(states)
        return selection.filter(self._held[part])

    def _whole(self, tables: Iterator[pa.Table]) -> pa.Table:
        return pa.concat_tables([pa.Table.from_batches([], self.schema), *tables])


def row_groups(handle: DeltaTable, path: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """The states of one file of a view's table, in pieces."""
    # Not pyarrow.dataset: importing it imports pandas, and the files are not sorted by anything that it could skip by.
    with storage(handle).open(path) as opened:
        file = pq.ParquetFile(opened, page_checksum_verification=True)
        for group in range(file.num_row_groups):
            yield file.read_row_group(group, columns=schema.names).select(schema.names).cast(schema)
