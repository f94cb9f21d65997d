"""The position of each source, and the outcomes of its records, as the numbers of `status`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger, ArchiveRun, Summary
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read.snapshot import RealtimeTail


@dataclass(frozen=True)
class ArchivePosition:
    """The result of the archive's finished runs: `counts` over everything below `end`."""

    end: Position = LOG_START
    counts: Counts = NOTHING

    @property
    def records(self) -> int:
        """How many records the archive has below `end`."""
        return self.counts.records + self.counts.rejects + self.counts.others


@dataclass(frozen=True)
class SourcePosition:
    """`counts` over everything below `reached`, from the layer that is ahead."""

    reached: Position
    counts: Counts = field(hash=False)

    @property
    def decoded(self) -> int:
        """The records that are events or lists of events, duplicates too; with quarantined and other sources' records these are
        all.
        """
        return self.counts.records


def standing(below_the_cut: Counts, tail: RealtimeTail, archived: ArchivePosition) -> SourcePosition:
    """The counts of a source: each record below `reached` is counted once.

    They are the batch's below the cut plus those of the realtime commits, or the archive's if that is further on every partition.
    """
    if archived.end != tail.end and tail.end.at_or_below(archived.end):
        return SourcePosition(archived.end, archived.counts)
    return SourcePosition(tail.end, plus(below_the_cut, tail.counts))


def archived(tables: Tables, source: str, decoder: str) -> ArchivePosition:
    """The archive of a source under a decoder's fingerprint, up to the first unfinished run."""
    ledger = ArchiveLedger(tables, source)
    return archived_by(ledger.runs(), ledger.summaries(decoder))


def archived_by(runs: Iterable[ArchiveRun], summaries: Iterable[Summary]) -> ArchivePosition:
    """The counts of the runs, first to last, until one has no summary."""
    found = {summary.run: summary.counts for summary in summaries}
    end, counts = LOG_START, []
    for run in runs:
        if run.number not in found:
            break
        end = run.end
        counts.append(found[run.number])
    return ArchivePosition(end, plus(*counts))
