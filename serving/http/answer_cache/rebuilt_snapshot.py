"""A snapshot of a view built again from the tables, at any server of the project: a cursor goes on at each of them.

If tables have all that a snapshot counts, its publication and the position of each source determine it. So a server that never
had the snapshot builds it from the commits up to these positions. It cannot build a snapshot with hot commits, because no table
has what they counted, nor one of a view with estimates, which may differ from merge to merge.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.ledger.publish import publications
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.realtime.follower import Follower
from tandem.serving.read.merged_layers import refusal
from tandem.serving.read.realtime_tail import RealtimeTail, cut_off
from tandem.serving.read.snapshot import Snapshot, has_view, tail
from tandem.serving.read.snapshot_follower import histories
from tandem.views.composite.rollup import root
from tandem.views.composite.table import looked_up
from tandem.views.composite.together import parts
from tandem.views.view import View, approximations


@dataclass(frozen=True)
class SnapshotBasis:
    """The publication of a snapshot, and up to where it counts each source of a view."""

    publication: int
    ends: Mapping[str, Position]

    def to_json(self) -> tuple[int, dict[str, Any]]:
        """The publication and the positions by source, as JSON has them."""
        return self.publication, {source: end.to_json() for source, end in self.ends.items()}


def basis_of(snapshot: Snapshot, view: View) -> SnapshotBasis | None:
    """What a snapshot is built from for a view; None if no other server can build it."""
    tails = {name: snapshot.tails.get(name) for name in sorted(_sources(view))}
    ends = {name: of.end for name, of in tails.items() if of is not None and not of.hot and of.problem is None}
    if not snapshot.live or len(ends) < len(tails) or approximations(view):
        return None
    return SnapshotBasis(snapshot.publication.number, ends)


def rebuild(tables: Tables, present: Snapshot, view: View, basis: SnapshotBasis) -> Snapshot | None:
    """Build the snapshot, where `present` is the newest; None if the tables no longer have it for the view. Raises Unreadable."""
    publication = _publication(tables, present, basis.publication)
    if publication is None or not has_view(publication, view) or basis.ends.keys() != _sources(view):
        return None
    same = publication is present.publication
    tails: dict[str, RealtimeTail] = {}
    for source, end in basis.ends.items():
        whole = present.tails[source] if same else _tail(tables, publication, source)
        whole = whole.cold or whole
        shorter = None if whole.problem is not None else cut_off(whole, end)
        if shorter is None:
            return None
        tails[source] = shorter
    past = present.histories if same else histories(tables, publication)
    snapshot = Snapshot(publication, tails, present.gaps, histories=past, reader=present.reader)
    return None if refusal(snapshot, view) is not None else snapshot


def _sources(view: View) -> set[str]:
    """The sources that a view counts, and those of the tables in which it looks up."""
    first = root(view)
    return {of.source.name for of in (*parts(first), *looked_up(first).values())}


def _publication(tables: Tables, present: Snapshot, number: int) -> Publication | None:
    """A publication whose batch views are whole, by its number."""
    if present.publication.number == number:
        return present.publication
    retained = publications.whole(tables, [each for each in Publications(tables).history() if each.number == number])
    return retained[0] if retained else None


def _tail(tables: Tables, publication: Publication, source: str) -> RealtimeTail:
    return tail(Follower(tables, publication.release, source).poll(), publication.cut(source))
