"""Drop whole tables that no retained state and no young release needs: those of decoders, views and realtime releases."""

from collections.abc import Iterable

from tandem.batch.runtime import scratch
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release


def view_tables(tables: Tables, releases: Iterable[Release], states: Iterable[Publication]) -> list[str]:
    """The addresses of the views of these states and, for releases without a state, the addresses with which they would begin.

    A state has the addresses of its views, which may differ from those of its release: a table may have been created for another
    release or name.
    """
    stated = list(states)
    numbers = {state.release for state in stated}
    own = [tables.view(*pair) for release in releases if release.number not in numbers for pair in release.views.items()]
    return [*dict.fromkeys([*own, *(live.address(tables, name) for state in stated for name, live in state.views.items())])]


def drop_unneeded(
    tables: Tables,
    releases: Iterable[Release],
    states: Iterable[Publication],
    *,
    needed: Iterable[Release],
    kept: Iterable[Publication],
) -> list[str]:
    """Drop the tables of these releases and states that no `needed` release and no `kept` state has. Returns their folders.

    A dropped table can be built again from the archive or the log. Each folder is dropped by one rename.
    """
    every, keep = list(releases), list(needed)
    numbers = {release.number for release in keep}
    decoders = {pair for release in keep for pair in release.sources.items()}
    views = set(view_tables(tables, keep, kept))
    folders: list[str] = []
    for release in every:
        for source, decoder in release.sources.items():
            if (source, decoder) not in decoders:
                # The summaries first: they state that the tables are complete.
                folders += [tables.control("summaries", source, decoder), tables.decoded(source, decoder)]
        if release.number not in numbers:
            folders.append(tables.realtime_of(release.number))
    known = [*view_tables(tables, every, ()), *view_tables(tables, (), states)]
    folders += [address for address in known if address not in views]
    return [folder for folder in dict.fromkeys(folders) if scratch.drop(tables, folder)]
