"""The records that are no events, as the archive has filed them: with their position and a reason."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset

from ledger.delta import file_system, files, open_table, unreadable
from ledger.tables import Tables
from views.source import REJECTS_SCHEMA


def rejects(tables: Tables, source: str, decoder: str) -> pa.Table:
    """All rejects of a source under a decoder's fingerprint, the newest append first, as REJECTS_SCHEMA says.

    None before the first archive run. Raises Unreadable.
    """
    address = tables.quarantine(source, decoder)
    handle = open_table(tables, address)
    if handle is None:
        return REJECTS_SCHEMA.empty_table()
    try:
        stored = pa.dataset.dataset(list(files(handle)), schema=REJECTS_SCHEMA, format="parquet", filesystem=file_system(handle))
        found = stored.to_table()
    except (OSError, pa.ArrowException) as error:
        unreadable(address, error)
    order = [("timestamp", "descending"), *((name, "ascending") for name in ("topic_id", "partition", "offset"))]
    return found.take(pc.sort_indices(found, sort_keys=order))
