"""The records that are no events, as the archive has filed them: with their position and a reason."""

import pyarrow as pa
import pyarrow.compute as pc

from ledger.delta import files, open_table, read_file
from ledger.tables import Tables
from views.source import REJECTS_SCHEMA


def rejects(tables: Tables, source: str, decoder: str) -> pa.Table:
    """All rejects of a source under a decoder's fingerprint, the newest append first, as REJECTS_SCHEMA says.

    None before the first archive run. Raises Unreadable.
    """
    handle = open_table(tables, tables.quarantine(source, decoder))
    stored = [] if handle is None else [read_file(handle, path, REJECTS_SCHEMA.names) for path in files(handle)]
    found = pa.concat_tables([pa.Table.from_batches([], REJECTS_SCHEMA), *(rows.cast(REJECTS_SCHEMA) for rows in stored)])
    order = [("timestamp", "descending"), ("topic_id", "ascending"), ("partition", "ascending"), ("offset", "descending")]
    return found.take(pc.sort_indices(found, sort_keys=order))
