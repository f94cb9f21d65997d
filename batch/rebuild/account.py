"""Account for every offset of a rebuild: event, duplicate, reject, hole, skipped, erased, or another source's record.

Pure functions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from tandem.batch.fold import fold_job
from tandem.batch.fold.duplicates import RepeatedHashes
from tandem.batch.rebuild.gather_events import EventFiles
from tandem.batch.rebuild.gather_states import StateFiles
from tandem.ledger.log.archived_range import ArchivedRange
from tandem.ledger.log.counts import Counts, add
from tandem.ledger.log.fetch_checks import Unclosed
from tandem.views.instant import nearest_time
from tandem.views.source.watermark import Maxima, newest
from tandem.views.verify.compare import MeasureDifference, plus


@dataclass(frozen=True)
class BatchViews:
    """The files of the views' batch version, and the counts of the events in them.

    Args:
        rejected: by view and reason.
        newest: the append time of the newest event: its record's timestamp, or when it was archived, whichever is earlier.
        differences: by compared pair, then by view.
        unlike: views without files, whose new measures have other rows than their other measures.
    """

    files: tuple[fold_job.ViewFile, ...]
    counts: Counts
    rejected: Mapping[str, Mapping[str, int]] = field(hash=False)
    maxima: Maxima = field(hash=False)
    newest: datetime | None
    differences: Mapping[fold_job.Pair, Mapping[str, tuple[MeasureDifference, ...]]] = field(hash=False)
    unlike: frozenset[str] = frozenset()


def account(files: EventFiles, states: StateFiles, found: RepeatedHashes, folded: fold_job.FoldResult) -> BatchViews:
    """Sum up what the tasks counted. Raises Unclosed if more offsets are unaccounted for than the archive's ledger explains."""
    counts, views = _counts(files, found, folded), states.tables
    if files.log.windows is None:
        refuse_unexplained(files.archived, holes=counts.holes, others=counts.others, skipped=counts.skipped)
    return BatchViews(
        files=folded.built,
        counts=counts,
        rejected={view: add(*(part.rejected[view] for part in folded.counted)) for view in views},
        maxima=newest(part.maxima for part in folded.counted),
        newest=_newest(files.archived, [part.newest for part in folded.counted if part.newest is not None]),
        differences={pair: {view: differences(folded.compared, view, pair) for view in views} for pair in states.pairs},
        unlike=folded.unlike,
    )


def _counts(files: EventFiles, found: RepeatedHashes, folded: fold_job.FoldResult) -> Counts:
    counted, decided = folded.counted, folded.decided
    counts = Counts(
        sum(part.events for part in counted),
        files.events.quarantined.reasons,
        duplicates=found.duplicates + decided.duplicates,
        conflicts=found.conflicts + decided.conflicts,
        further=sum(part.further for part in counted) + files.events.quarantined.alone.further,
        rejected_events=files.events.quarantined.alone.events,
        ahead=sum(part.ahead for part in counted),
        off_calendar=sum(part.off_calendar for part in counted),
        rounded=sum(part.rounded for part in counted),
    )
    offsets = files.archived.covered.length
    source = files.log.source
    records = None if not source.has_others and not source.skips else files.events.records
    erased = files.archived.erased
    unaccounted = offsets - erased - counts.records - counts.whole_rejects
    holes = unaccounted if records is None else offsets - erased - records
    skipped = unaccounted - holes if files.events.skipped is None else files.events.skipped
    return replace(counts, holes=holes, others=unaccounted - holes - skipped, skipped=skipped, erased=erased)


def refuse_unexplained(archived: ArchivedRange, *, holes: int, others: int, skipped: int = 0) -> None:
    """Raise Unclosed if there are more of one kind than the archive found: a table lacks rows."""
    if not 0 <= holes <= archived.holes or not 0 <= others <= archived.others or not 0 <= skipped <= archived.skipped:
        tombstones = f", and {archived.skipped} skipped" if archived.skipped or skipped else ""
        raise Unclosed(
            f"from {archived.start} to the cut {archived.end} of source {archived.source!r}, {holes + others + skipped} offsets "
            f"have neither event nor reject, but the archive found {archived.holes} empty and {archived.others} of other "
            f"sources{tombstones}; an events or quarantine table has lost or doubled rows; nothing was published"
        )


def _newest(archived: ArchivedRange, stamps: Sequence[int]) -> datetime | None:
    """The newest of these append times, in microseconds since 1970, but no later than when the range was archived."""
    if not stamps:
        return None
    if archived.archived_at is None:
        raise Unclosed(f"the archive of source {archived.source!r} does not reach {archived.end}")
    return min(nearest_time(max(stamps)), archived.archived_at)


def differences(compared: Sequence[fold_job.KeyComparison], view: str, pair: fold_job.Pair) -> tuple[MeasureDifference, ...]:
    """The differences of each measure of a view between two sides, summed over all buckets."""
    buckets = [one.differences for one in compared if (one.view, one.pair) == (view, pair)]
    return tuple(plus(*parts) for parts in zip(*buckets, strict=True))
