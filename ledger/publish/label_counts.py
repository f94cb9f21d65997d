"""The labels at a cut: late events, events after final windows, the watermark; and the duplicates that were counted as events.

Only the speed layer labels events, because it reads them in order. A batch reads files in any order and knows only the maxima of
what it has read. Events that the speed layer skipped over a bridge have no label.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import NOTHING, Counts, add, plus
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.follower import Follower
from tandem.ledger.realtime.tiling import chain
from tandem.views.read_columns import sees_positions
from tandem.views.source.watermark import Maxima, later, watermark
from tandem.views.view import View


@dataclass(frozen=True)
class Labels:
    """The labels of one source below a cut: the number of `late` events, `after_final` by view name, and the watermark there."""

    late: int
    after_final: Mapping[str, int] = field(hash=False)
    watermark: int | None


def labels_below(
    tables: Tables,
    parent: Publication | None,
    source: str,
    cut: Position,
    *,
    views: Mapping[str, str],
    maxima: Maxima,
    idle: timedelta,
) -> Labels:
    """Add the labels of the commits from the parent's cut up to this cut to those of the parent, a state of the same release.

    `views` has the fingerprints of the source's views by name; a view that the parent lacks starts at 0. `maxima` are those of
    all events below the cut. The watermark is computed from them if no commits lead up to the cut, or if neither these nor the
    parent have one. It is never less than the parent's. Raises Unreadable.
    """
    reached = watermark(maxima, idle)
    if parent is None or source not in parent.cuts:
        return Labels(0, {}, reached)
    found = chain(Follower(tables, parent.release, source).poll(), parent.cuts[source], across_bridges=True).commits
    passed = [commit for commit in found if commit.end.at_or_below(cut)]
    end = passed[-1].end if passed else parent.cuts[source]
    led_up = end == cut and all(commit.kind == "fold" for commit in passed)
    known = later(parent.watermarks.get(source), *(commit.watermark for commit in passed))
    reached = known if led_up and known is not None else later(known, reached)
    before = parent.counts[source].late if source in parent.counts else 0
    return Labels(
        late=before + sum(commit.counts.late for commit in passed),
        after_final=add(
            {name: parent.after_final.get(name, 0) for name, fingerprint in views.items() if _same(parent, name, fingerprint)},
            *({name: commit.after_final.get(fingerprint, 0) for name, fingerprint in views.items()} for commit in passed),
        ),
        watermark=reached,
    )


def _same(parent: Publication, name: str, fingerprint: str) -> bool:
    return name in parent.views and parent.views[name].fingerprint == fingerprint


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
    return more_events(plus(parent.counts.get(source, NOTHING), *(commit.counts for commit in passed)), below)


def more_events(counts: Counts, other: Counts) -> int | None:
    """How many more events one of two computations counts of the same records; None if it certainly processed other records."""
    return counts.events - other.events if _outcomes(counts) == _outcomes(other) else None


def counted_by_one(view: View, found: Counts, *, beyond: int | None) -> int:
    """The most events that only one of two computations of a view counts, because of the duplicates `found` in the range.

    `beyond` is how many more events one of them counted; None if unknown. Of duplicates with different contents, each side may
    count a different one; of equal duplicates, too, if the view reads their positions. Then each side counts one event that the
    other does not.
    """
    if beyond is None:
        return 2 * found.duplicates
    return abs(beyond) + 2 * (found.duplicates if sees_positions(view) else found.conflicts)


def _outcomes(counts: Counts) -> int:
    """The outcomes of records: the same number for both layers if they processed the same records."""
    return counts.events + counts.duplicates + counts.rejects
