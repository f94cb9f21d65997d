"""Take out what no retained publication names: batch versions, and the tables of definitions that were never published."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from batch.runtime import scratch
from ledger.delta import delta_tables
from ledger.delta.addresses import Tables
from ledger.publish.batch_parts import paths
from ledger.publish.publications import Publication
from ledger.publish.releases import Release


def expire(tables: Tables, address: str, kept: Iterable[Publication], *, at: datetime) -> int:
    """Take out of a view's table the batch versions that none of these publications names; how many files.

    The files stay on disk for those who read them. For the table's one writer. Raises Conflict, Unwritable, Unreadable.
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
        delta_tables.conditional_exchange(handle, old, [], at=at)
    return len(old)


def view_tables(tables: Tables, releases: Iterable[Release], states: Iterable[Publication]) -> list[str]:
    """The addresses of the views of these states, and of the releases that have none of the states: those they would begin with.

    A state knows better than its release where its views are: a table may have been made for another release, or another name.
    """
    stated = list(states)
    numbers = {state.release for state in stated}
    own = [tables.view(*pair) for release in releases if release.number not in numbers for pair in release.views.items()]
    return [*dict.fromkeys([*own, *(live.address(tables, name) for state in stated for name, live in state.views.items())])]


def discard_unneeded(
    tables: Tables,
    releases: Iterable[Release],
    states: Iterable[Publication],
    *,
    needed: Iterable[Release],
    kept: Iterable[Publication],
) -> list[str]:
    """Remove the tables of these releases and states that belong to none of those that are `needed` or `kept`; which.

    What is discarded can be built again: from the archive, or from the log's events. Each folder goes at one stroke.
    """
    every, keep = list(releases), list(needed)
    numbers = {release.number for release in keep}
    decoders = {pair for release in keep for pair in release.sources.items()}
    views = set(view_tables(tables, keep, kept))
    folders: list[str] = []
    for release in every:
        for source, decoder in release.sources.items():
            if (source, decoder) not in decoders:
                # First what says that the tables are complete.
                folders += [tables.control("summaries", source, decoder), str(Path(tables.events(source, decoder)).parent)]
        if release.number not in numbers:
            folders.append(tables.realtime_of(release.number))
    known = [*view_tables(tables, every, ()), *view_tables(tables, (), states)]
    folders += [address for address in known if address not in views]
    return [folder for folder in dict.fromkeys(folders) if scratch.discard(tables, Path(folder))]
