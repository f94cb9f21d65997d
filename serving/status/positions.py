"""How far each source has come, and what became of its records so far: the figures behind `status`."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ledger.delta.addresses import Tables
from ledger.log import archive
from ledger.log.counts import NOTHING, Counts, plus
from ledger.log.positions import LOG_START, Position
from serving.read.snapshot import Tail


@dataclass(frozen=True)
class Archived:
    """What the archive's finished runs found: `counts` over everything below `end`."""

    end: Position = LOG_START
    counts: Counts = NOTHING

    @property
    def records(self) -> int:
        """How many records the archive holds below `end`."""
        return self.counts.records + self.counts.rejects + self.counts.others


@dataclass(frozen=True)
class Standing:
    """`counts` over everything below `reached`, by whichever of the two layers has come further."""

    reached: Position
    counts: Counts = field(hash=False)

    @property
    def decoded(self) -> int:
        """The records that are events, or a list of them, copies too: with those in quarantine and those of others, all."""
        return self.counts.records


def standing(below_the_cut: Counts, tail: Tail, archived: Archived) -> Standing:
    """What is known of a source: each record below `reached` was counted once.

    That is the batch's counts below the cut and the realtime commits' from there on, or the archive's where that has come
    further on every partition.
    """
    if archived.end != tail.end and tail.end.at_or_below(archived.end):
        return Standing(archived.end, archived.counts)
    return Standing(tail.end, plus(below_the_cut, tail.counts))


def archived(tables: Tables, source: str, decoder: str) -> Archived:
    """What the archive holds of a source under a decoder's fingerprint, up to the first run that is not finished."""
    return archived_by(archive.runs(tables, source), archive.summaries(tables, source, decoder))


def archived_by(runs: Iterable[archive.Run], summaries: Iterable[archive.Summary]) -> Archived:
    """The counts of the runs, first to last, until one has no summary."""
    found = {summary.run: summary.counts for summary in summaries}
    end, counts = LOG_START, []
    for run in runs:
        if run.number not in found:
            break
        end = run.end
        counts.append(found[run.number])
    return Archived(end, plus(*counts))
