"""How many late events lie below a cut. Late is the speed layer's label: a batch reads files in no order and cannot give it."""

from ledger.follower import Follower
from ledger.positions import Position
from ledger.publications import Publication
from ledger.tables import Tables
from ledger.tiling import chain


def late_below(tables: Tables, parent: Publication | None, source: str, cut: Position) -> int:
    """What the parent publication counted as late, and what the commits from its cut up to this one add.

    What went past the speed layer over a bridge has no label and counts nothing. Raises Unreadable.
    """
    if parent is None or source not in parent.cuts:
        return 0
    commits = Follower(tables, parent.release, source).poll().commits
    passed = chain(commits, parent.cuts[source], across_bridges=True).commits
    before = parent.counts[source].late if source in parent.counts else 0
    return before + sum(commit.counts.late for commit in passed if commit.end.at_or_below(cut))
