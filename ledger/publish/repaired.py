"""How many copies a batch found that the speed layer had counted as events, because they came beyond the source's horizon."""

from ledger.delta.addresses import Tables
from ledger.log.counts import NOTHING, Counts, plus
from ledger.log.positions import Position
from ledger.publish.publications import Publication
from ledger.realtime.follower import Follower
from ledger.realtime.tiling import chain


def repaired(
    tables: Tables, parent: Publication | None, release: int, source: str, *, cut: Position, below: Counts
) -> int | None:
    """The events of the release's commits from the parent publication's cut to this one, less those that batch counts there.

    `below` is what batch counts below `cut`. None where nobody can tell: over a bridge, after another release, and where
    both have not seen the same records, as over a gap. Raises Unreadable.
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
    """What became of records: the same number wherever the same ones were seen."""
    return counts.events + counts.duplicates + counts.rejects
