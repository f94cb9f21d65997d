"""Take out what no retained publication names: batch versions, and the tables of definitions that were never published."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from batch import scratch
from ledger import delta
from ledger.parts import paths
from ledger.publications import Publication
from ledger.releases import Release
from ledger.tables import Tables


def expire(tables: Tables, address: str, kept: Iterable[Publication], *, at: datetime) -> int:
    """Take out of a view's table the batch versions that none of these publications names; how many files.

    The files stay on disk for those who read them. For the table's one writer. Raises Conflict, Unwritable, Unreadable.
    """
    handle = delta.open_table(tables, address)
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
        delta.conditional_exchange(handle, old, [], at=at)
    return len(old)


def discard_unneeded(
    tables: Tables, releases: Iterable[Release], needed: Iterable[Release], kept: Iterable[Publication]
) -> list[str]:
    """Remove the tables that belong to `releases` and to none of the `needed`, nor to a publication that is `kept`; which.

    What is discarded can be built again: from the archive, or from the log's events. Each folder goes at one stroke.
    """
    keep = list(needed)
    numbers = {release.number for release in keep}
    decoders = {pair for release in keep for pair in release.sources.items()}
    views = {tables.view(*pair) for release in keep for pair in release.views.items()}
    views |= {live.address(tables, name) for publication in kept for name, live in publication.views.items()}
    folders: list[str] = []
    for release in releases:
        for source, decoder in release.sources.items():
            if (source, decoder) not in decoders:
                # First what says that the tables are complete.
                folders += [tables.control("summaries", source, decoder), str(Path(tables.events(source, decoder)).parent)]
        folders += [address for pair in release.views.items() if (address := tables.view(*pair)) not in views]
        if release.number not in numbers:
            folders.append(tables.realtime_of(release.number))
    return [folder for folder in dict.fromkeys(folders) if scratch.discard(tables, Path(folder))]
