"""Split a rebuild's log into the slices that its tasks read. Pure functions."""

from collections.abc import Sequence
from dataclasses import dataclass

from tandem.batch.rebuild.inputs import LogRange
from tandem.batch.runtime.parallelism import slices
from tandem.ledger.files.file_ranges import FileRange, rows_within, within_times
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.archived_range import ArchivedRange
from tandem.ledger.log.positions import Position
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.source.offset_ranges import Ranges


@dataclass(frozen=True)
class Split:
    """The slices of a rebuild: one task each.

    Args:
        compared: events to fold that are compared with what was served.
        beyond: events to fold beyond that, which nobody was served.
        searched: events to search for duplicates.
        history: events below the start, of which the searched ones may be duplicates.
    """

    compared: tuple[Slice, ...]
    beyond: tuple[Slice, ...]
    searched: tuple[Slice, ...] = ()
    history: tuple[Slice, ...] = ()

    @property
    def rows(self) -> int:
        """About how many events are folded."""
        return sum(part.rows for part in (*self.compared, *self.beyond))


def split(
    log: LogRange, archived: ArchivedRange, events: Sequence[FileRange], *, end: Position, parallelism: int, task_mb: int
) -> Split:
    """Split `[start, cut)` and, for duplicates, what lies below the start; a slice has at most `task_mb` megabytes of Parquet.

    Events from `end` on are beyond the comparison.
    """

    def sliced(files: Sequence[FileRange], covered: Ranges) -> tuple[Slice, ...]:
        return tuple(slices(files, covered, parallelism=parallelism, task_mb=task_mb))

    wanted = events
    if log.windows is not None and log.source.prepare is None:  # `prepare` may change event times
        wanted = within_times(events, *log.windows)
    compared, beyond = sliced(wanted, archived.up_to(end)), sliced(wanted, archived.beyond(end))
    if not log.source.identity:
        return Split(compared, beyond)
    timed = log.source.event_time in identity_columns(log.source)
    # Events of other windows may be duplicates of these only if duplicates may differ in event time.
    everything = log.windows is not None and not timed
    searched = sliced(events, archived.covered) if everything else (*compared, *beyond)
    if not log.start.offsets:
        return Split(compared, beyond, searched)
    before = _near_in_time(events, archived) if timed else events
    return Split(compared, beyond, searched, sliced(before, archived.before))


def _near_in_time(files: Sequence[FileRange], archived: ArchivedRange) -> Sequence[FileRange]:
    """The files that may have events of the same times as the events of the range."""
    times = [file.times for file in files if rows_within([file], archived.covered)]
    known = [both for both in times if both is not None]
    if not known or len(known) < len(times):
        return files
    return within_times(files, min(low for low, _ in known), max(high for _, high in known))
