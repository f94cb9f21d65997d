"""Open a file of a table inside a task."""

import pyarrow as pa
import pyarrow.parquet as pq

from tandem.ledger.delta.errors import unreadable
from tandem.ledger.delta.location import Location


def opened(place: Location, path: str, *, verified: bool = False) -> pq.ParquetFile:
    """The open file; `verified` checks its pages against their checksums. Raises Unreadable if it is missing or torn."""
    try:
        return pq.ParquetFile(place.storage().open(path), page_checksum_verification=verified)
    except (OSError, pa.ArrowException) as error:
        unreadable(f"{place.address}: {path}", error)
