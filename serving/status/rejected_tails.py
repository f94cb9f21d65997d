"""Sources that fall silent: of the newest records of a source, more than half are rejected.

Positions decide, never clocks: the newest commits of the speed layer, beyond them the archive's newest runs, until LEAST records
are counted. Of an archive run the last offsets decide, so that a long run hides neither a schema that changed near its end nor
its correction. A source is well again as soon as its newest records decode.

No record is read again. Commits and runs have counts, and the quarantine has the place of each reject.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import RECORDS, log_table
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.archive_runs import ArchiveLedger, ArchiveRun
from tandem.ledger.log.counts import Counts, add
from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.views.counted import counted
from tandem.views.source.offset_ranges import EMPTY, Partition, Ranges

LEAST: Final = 10
"""The newest records that decide; all, of a source that has fewer."""

LOOK_BACK: Final = 100_000
"""How many offsets are searched for the first reject, of all partitions together."""

_SAMPLED: Final = 1000
"""The newest rejects in which samples are searched."""

_PIECE_ROWS: Final = 1 << 17
"""The most rejects in memory before those of one record with one reason are one row."""

_CAUSES: Final[Mapping[str, str]] = {
    "missing_field": "the schema has changed: its producer no longer sends a field that the event needs",
    "wrong_type": "the schema has changed, or a column has moved: a field has a value of another type",
    "invalid_value": "the schema has changed, or a column has moved: a field has a value that is not allowed",
    "out_of_range": "the schema has changed: a number has another unit, or more digits than the event takes",
    "no_zone": "its producer writes times in another format, without a zone",
    "implausible_time": "its producer writes times in another unit, its clock is wrong, or the event time's column has moved",
    "producer_time": "the topic's records have their producers' timestamps, and the source needs the broker's",
    "schema": "the schema has changed: its producer writes with a schema that the source does not have",
    "repeated_key": "its producer writes another format: a key is twice in one object",
    "format": "its producer writes another format, or a column has moved",
    "json": "its producer writes another format, or compresses values",
    "utf8": "its producer writes another format, encoding or compression",
    "empty": "its producer sends records without a value",
    "length": "its producer sends lists that are empty, or longer than the source takes",
    "request": "its producer writes another format of the request line",
    "kind": "its producer has changed what tells the kinds of records apart",
    "refused": "the event's own check or the project's decoder refuses the records",
    "upgrade": "the project's upgrade of an earlier version fails",
}


@dataclass(frozen=True)
class LogStretch:
    """A stretch of the log: the number of events, duplicates too, and of rejects by reason."""

    start: Position
    events: int
    rejects: Mapping[str, int] = field(hash=False)

    @property
    def silent(self) -> bool:
        """Whether more than half are rejects."""
        return sum(self.rejects.values()) > self.events

    @property
    def well(self) -> bool:
        """Whether it has events, and at most half are rejects."""
        return self.events > 0 and not self.silent


@dataclass(frozen=True)
class RejectSample:
    """A reject of the newest ones, with its place."""

    topic_id: str
    partition: int
    offset: int
    reason: str
    detail: str

    def to_json(self) -> dict[str, Any]:
        """As `status --json` prints it."""
        position = f"{self.topic_id}/{self.partition}:{self.offset}"
        return {"position": position, "reason": self.reason, "detail": self.detail}


@dataclass(frozen=True)
class ArchiveTail:
    """The newest records of the archive below `end`, newest stretch first.

    `since` has by partition the offset from which on at least half of the offsets are rejects, `samples` the newest reject by
    reason.
    """

    end: Position = LOG_START
    stretches: tuple[LogStretch, ...] = ()
    since: Mapping[Partition, int] = field(default_factory=dict, hash=False)
    samples: Mapping[str, RejectSample] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class RejectedTail:
    """The newest records of a source, most of which are rejected.

    Args:
        records: the number of events and rejects that decided.
        rejects: of these, by reason.
        since: by partition, an offset at or near which the rejects begin.
        sample: one reject; None until `archive` has put one into quarantine.
    """

    records: int
    rejects: Mapping[str, int] = field(hash=False)
    since: Position
    sample: RejectSample | None

    @property
    def reason(self) -> str:
        """The most frequent reason."""
        return max(self.rejects, key=lambda reason: (self.rejects[reason], reason))

    @property
    def cause(self) -> str:
        """The likely cause in words."""
        return _CAUSES.get(self.reason, "its producer writes something else than the source declares")

    def warning(self, source: str) -> str:
        """What is rejected, since where, the likely cause with a sample, and what to do."""
        number = sum(self.rejects.values())
        since = f" since {self.since}" if self.since.offsets else ""
        sample = "" if self.sample is None else f' ("{self.sample.detail}" at {self.sample.to_json()["position"]})'
        return (
            f"{number} of the newest {counted(self.records, 'record')} of source '{source}' are rejected{since}, most of them as "
            f"{self.reason}: {self.cause}{sample}; see `tandem quarantine --source {source}`, then correct the producer, or the "
            "definitions and run `tandem plan`, which counts the rejects that become readable"
        )

    def to_json(self, source: str) -> dict[str, Any]:
        """As `status --json` prints it."""
        return {
            "records": self.records,
            "rejects": dict(self.rejects),
            "since": self.since.to_json(),
            "cause": self.cause,
            "sample": None if self.sample is None else self.sample.to_json(),
            "warning": self.warning(source),
        }


def tail_of_rejects(tail: RealtimeTail, archive: ArchiveTail) -> RejectedTail | None:
    """The newest records of a source, if more than half are rejects; None if not, or where there is no record."""
    beyond = [commit for commit in tail.every if not commit.end.at_or_below(archive.end)]
    realtime = [_stretch(commit.start, commit.counts) for commit in reversed(beyond)]
    newest = list(_newest([*realtime, *archive.stretches]))
    whole = _together(newest)
    if not whole.silent:
        return None
    records = whole.events + sum(whole.rejects.values())
    following = list(_take_until_well(realtime, len(newest)))
    start = following[-1].start if following else LOG_START
    if len(following) < len(realtime) or not _together(_newest(archive.stretches)).silent:
        return RejectedTail(records, whole.rejects, start, None)
    silent = RejectedTail(records, whole.rejects, Position.of({**start, **archive.since}), None)
    return replace(silent, sample=archive.samples.get(silent.reason))


def archive_tail(tables: Tables, source: str, decoder: str) -> ArchiveTail:
    """The newest records that the archive has of a source, under a decoder's fingerprint. Raises Unreadable.

    Reads the quarantine only if the newest runs have enough rejects to decide.
    """
    ledger = ArchiveLedger(tables, source)
    counts = {summary.run: summary.counts for summary in ledger.summaries(decoder)}
    finished: list[ArchiveRun] = []
    for run in ledger.runs():
        if run.number not in counts:
            break
        finished.append(run)
    if not finished:
        return ArchiveTail()
    newest = _least([(run, counts[run.number]) for run in reversed(finished)])
    end = finished[-1].end
    if 2 * sum(each.rejects for _, each in newest) < LEAST and sum(_length(each) for _, each in newest) >= LEAST:
        return ArchiveTail(end, tuple(_stretch(run.start, each) for run, each in newest))
    rejects = _rejects(tables, tables.quarantine(source, decoder), end)
    places = defaultdict[Partition, list[int]](list)
    for topic, partition, offset in zip(*(rejects[name].to_pylist() for name in RECORDS.names), strict=True):
        places[topic, partition].append(offset)
    stretches = tuple(_end_of(run, each, rejects) for run, each in newest)
    since = {partition: _first(offsets, end.get(partition, 0)) for partition, offsets in places.items()}
    first = {partition: offset for partition, offset in since.items() if offset is not None}
    return ArchiveTail(end, stretches, first, _samples(tables, tables.quarantine(source, decoder), rejects))


def _stretch(start: Position, counts: Counts) -> LogStretch:
    return LogStretch(start, counts.events + counts.duplicates, counts.quarantined)


def _length(counts: Counts) -> int:
    return counts.events + counts.duplicates + counts.rejects


def _least(runs: Iterable[tuple[ArchiveRun, Counts]]) -> list[tuple[ArchiveRun, Counts]]:
    """The first of these runs that have LEAST records together."""
    chosen, records = [], 0
    for run, counts in runs:
        if records >= LEAST:
            break
        if _length(counts):
            chosen.append((run, counts))
            records += _length(counts)
    return chosen


def _newest(stretches: Iterable[LogStretch]) -> Iterator[LogStretch]:
    """The first of these stretches that have LEAST records together."""
    records = 0
    for stretch in stretches:
        if records >= LEAST:
            return
        yield stretch
        records += stretch.events + sum(stretch.rejects.values())


def _take_until_well(stretches: Iterable[LogStretch], deciding: int) -> Iterator[LogStretch]:
    """The first `deciding` of these stretches, and those that follow up to a stretch that is well."""
    for number, stretch in enumerate(stretches):
        if number >= deciding and stretch.well:
            return
        yield stretch


def _together(stretches: Iterable[LogStretch]) -> LogStretch:
    several = list(stretches)
    return LogStretch(LOG_START, sum(each.events for each in several), add(*(each.rejects for each in several)))


def _end_of(run: ArchiveRun, counts: Counts, rejects: pa.Table) -> LogStretch:
    """The last LEAST offsets of each partition of a run; its own counts where it has no more.

    The rejects are those of the quarantine; the share of offsets with a record is that of the run.
    """
    offsets, inside = 0, []
    for (topic, partition), end in run.end.offsets:
        start = max(run.start.get((topic, partition), run.firsts.get((topic, partition), 0)), end - LEAST)
        offsets += max(0, end - start)
        of_partition = pc.and_(pc.equal(rejects["topic_id"], topic), pc.equal(rejects["partition"], partition))
        at = rejects["offset"]
        inside.append(pc.and_(of_partition, pc.and_(pc.greater_equal(at, start), pc.less(at, end))))
    if offsets >= counts.offsets or not inside:
        return _stretch(run.start, counts)
    reasons = Counter[str]()
    for mask in inside:
        there = rejects.filter(mask)
        for reason, count in zip(there["reason"].to_pylist(), there["count_all"].to_pylist(), strict=True):
            reasons[reason] += count
    length = _length(counts) * offsets // counts.offsets
    return LogStretch(run.start, max(0, length - reasons.total()), dict(sorted(reasons.items())))


def _first(offsets: Sequence[int], end: int) -> int | None:
    """The offset from which on, up to the end, at least half of all offsets are rejects; None if there is none."""
    newest = enumerate(sorted(set(offsets), reverse=True), 1)
    return min((offset for number, offset in newest if 2 * number >= end - offset), default=None)


def _samples(tables: Tables, address: str, rejects: pa.Table) -> dict[str, RejectSample]:
    """The newest reject of each reason, among the newest of all. Only for these the details are read."""
    order = pc.sort_indices(rejects, sort_keys=[("timestamp_max", "ascending"), ("offset", "ascending")])
    rows = rejects.take(order.slice(max(0, len(order) - _SAMPLED))).select([*RECORDS.names, "reason"])
    newest = {reason: tuple(place) for *place, reason in zip(*(column.to_pylist() for column in rows.columns), strict=True)}
    ranges = EMPTY.union(*(Ranges.of({(topic, number): (offset, offset + 1)}) for topic, number, offset in set(newest.values())))
    samples = {}
    for piece in _pieces(tables, address, ranges, ["reason", "detail"]):
        for topic, partition, offset, reason, detail in zip(*(column.to_pylist() for column in piece.columns), strict=True):
            if newest.get(reason) == (topic, partition, offset):
                samples[reason] = RejectSample(topic, partition, offset, reason, detail)
    return samples


def _rejects(tables: Tables, address: str, end: Position) -> pa.Table:
    """The rejects of the last LOOK_BACK offsets, an equal share of each partition: a row for each reason at an offset."""
    share = max(LEAST, LOOK_BACK // max(1, len(end.offsets)))
    ranges = Ranges.of({partition: (max(0, offset - share), offset) for partition, offset in end.offsets})
    pieces = [
        piece.group_by([*RECORDS.names, "reason"]).aggregate([([], "count_all"), ("timestamp", "max")])
        for piece in _pieces(tables, address, ranges, ["timestamp", "reason"])
    ]
    # Not `empty_table`, which imports pandas.
    return pa.concat_tables([pa.Table.from_batches([], _REJECTS), *pieces])


def _pieces(tables: Tables, address: str, ranges: Ranges, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The position of each reject in the ranges, and these columns."""
    table = log_table(tables, address, RECORDS)
    pieces = [(partition, interval) for partition, intervals in ranges.intervals for interval in intervals]
    files = tuple(file.path for file in table.files if any(file.overlap(*piece) for piece in pieces))
    part = Slice(ranges, files, 0)
    return scan(table.place, part, RECORDS, [*RECORDS.names, *columns], rows=_PIECE_ROWS, verified=True)


_REJECTS: Final = pa.schema(
    [
        ("topic_id", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("reason", pa.string()),
        ("count_all", pa.int64()),
        ("timestamp_max", pa.timestamp("us", "UTC")),
    ]
)
