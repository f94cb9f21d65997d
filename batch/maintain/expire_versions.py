"""Remove batch versions that no retained publication names from a view's table; a vacuum deletes their files later."""

from collections.abc import Iterable
from datetime import datetime

from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.batch_parts import paths
from tandem.ledger.publish.publications import Publication


def expire_versions(tables: Tables, address: str, kept: Iterable[Publication], *, at: datetime) -> int:
    """Remove the batch versions that none of these publications names. Returns the number of files.

    The files stay on the disk for their readers. For the table's one writer. Raises Conflict, Unwritable, Unreadable.
    """
    handle = delta_tables.open_table(tables, address)
    if handle is None:
        return 0
    named = {
        part.version
        for publication in kept
        for name, live in publication.views.items()
        if live.address(tables, name) == address
        for part in live.parts
    }
    old = [path for path, version in paths(handle).items() if version not in named]
    if old:
        delta_tables.conditional_exchange(handle, old, [], at=at, lease=tables.lease(address))
    return len(old)
