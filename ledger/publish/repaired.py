"""How many duplicates the speed layer counted as events, because they arrived beyond the source's dedup window."""

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain


def repaired(
    tables: Tables, parent: Publication | None, release: int, source: str, *, cut: Position, below: Counts
) -> int | None:
    """The events that the speed layer counted from the parent publication's cut to `cut`, minus those that batch counts there.

    `below` is what batch counts below `cut`. None if it cannot be computed: over a bridge, after another release, and if both
    layers did not process the same records, as over a gap. Raises Unreadable.
    """
    if parent is None or parent.release != release:
        return None
    commits = Follower(tables, release, source).poll()
    passed = [commit for commit in chain(commits, parent.cut(source)).commits if commit.end.at_or_below(cut)]
    if (passed[-1].end if passed else parent.cut(source)) != cut:
        return None
    before, tail = parent.counts.get(source, NOTHING), plus(*(commit.counts for commit in passed))
    if _outcomes(before) + _outcomes(tail) != _outcomes(below):
        return None
    return before.events + tail.events - below.events


def _outcomes(counts: Counts) -> int:
    """The outcomes of records: the same number for both layers if they processed the same records."""
    return counts.events + counts.duplicates + counts.rejects
