"""What the archive's ledger records of one range of the log, read once."""

from dataclasses import dataclass, field
from datetime import datetime

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.views.source.offset_ranges import Offsets, Ranges


@dataclass(frozen=True)
class ArchivedRange:
    """What the archive's ledger records of `[start, end)` of the source of this name.

    `firsts` are the log's first offsets by partition, `generations` the ids of the source's topics, the oldest first. The archive
    runs that touch the range found `holes` offsets without a record, `others` with a record of another source and `skipped`
    ones; `erased` of its records were erased since. `archived_at` is when the run began that archived the last of the range;
    None if the archive does not reach `end`.
    """

    source: str
    start: Position
    end: Position
    firsts: Offsets = field(hash=False)
    generations: tuple[str, ...]
    holes: int
    others: int
    skipped: int
    archived_at: datetime | None
    erased: int = 0

    @property
    def covered(self) -> Ranges:
        """The range's offsets by partition."""
        return ranges(self.start, self.end, self.firsts)

    @property
    def before(self) -> Ranges:
        """The offsets below the range."""
        return ranges(LOG_START, self.start, self.firsts)

    def up_to(self, position: Position) -> Ranges:
        """The offsets of the range below a position."""
        return ranges(self.start, position, self.firsts)

    def beyond(self, position: Position) -> Ranges:
        """The offsets of the range from a position on."""
        return ranges(position, self.end, self.firsts)


def archived_range(tables: Tables, source: str, decoder: str, start: Position, end: Position) -> ArchivedRange:
    """Read it, for the events and rejects under a decoder fingerprint. Raises Unreadable, UnfinishedErasure."""
    ledger = ArchiveLedger(tables, source)
    runs, firsts = ledger.runs(), ledger.firsts()
    touching = {run.number for run in runs if not end.at_or_below(run.start) and not run.end.at_or_below(start)}
    found = [summary.counts for summary in ledger.summaries(decoder) if summary.run in touching]
    return ArchivedRange(
        source,
        start,
        end,
        firsts,
        ledger.generations(),
        holes=sum(counts.holes for counts in found),
        others=sum(counts.others for counts in found),
        skipped=sum(counts.skipped for counts in found),
        archived_at=next((run.at for run in runs if end.at_or_below(run.end)), None),
        erased=Erasures(tables).count_within(source, ranges(start, end, firsts)),
    )
