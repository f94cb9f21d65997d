"""One Spark task of a micro-batch: it folds its records into all views of the source, and returns one row.

Partials leave a task without ranges: the driver knows which offsets Spark planned, which is what a micro-batch covers, whatever
the tasks read.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import pyarrow as pa

from tandem.infra.spark.header_texts import with_headers
from tandem.ledger.log.last_of_records import last_of
from tandem.ledger.realtime.commits import TableEnds
from tandem.ledger.states_by_key import StatesByKey
from tandem.ledger.table_versions import overlay, versions_of_keys
from tandem.speed.dedup.keys import KnownWords
from tandem.speed.dedup.within_task import NO_SECRET, NOTHING_KNOWN, Drops, identified, identities, is_at
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.arrow.partitions import by_partition
from tandem.views.composite.table import looked_up
from tandem.views.decode.schema_ids import missing_schemas
from tandem.views.kernel.kernel import Partial, after_final, ahead, decode, late, partial, prepare
from tandem.views.kernel.look_up import lookup_keys_of
from tandem.views.project.project import load_files
from tandem.views.source.fields.rounded import total_roundings
from tandem.views.source.formats.schema_registry import SchemaKey
from tandem.views.source.log_order import event_rejects, further
from tandem.views.source.offset_ranges import EMPTY, Partition
from tandem.views.source.source import Source
from tandem.views.source.watermark import Maxima, Newest, event_times, maxima_of, newest_append, off_calendar
from tandem.views.view import View, bind

SCHEMA: Final = "share binary"
"""What a task's rows are to Spark: one `Share` each."""


_PIECE_ROWS: Final = 100_000


class BroadcastBytes(Protocol):
    """Bytes that Spark brings to each worker once, such as a broadcast."""

    @property
    def value(self) -> bytes:
        """The bytes."""
        ...


Stream = bytes | BroadcastBytes
"""An Arrow IPC stream."""


class SmallTable(NamedTuple):
    """A base, and `added` versions, which replace all those of their keys, as Arrow IPC streams; `added` may be empty."""

    base: Stream
    added: bytes = b""


class LargeTable(NamedTuple):
    """A table in files, from which tasks read the versions of their keys; `new` are states in order of hashes, as Arrow IPC."""

    files: tuple[StatesByKey, ...]
    new: bytes


TaskTable = SmallTable | LargeTable


class KnownVersions(NamedTuple):
    """What tasks look up in, by the name of the view of a table's versions, and by source up to where that is known."""

    versions: Mapping[str, TaskTable] = MappingProxyType({})
    ends: Mapping[str, TableEnds] = MappingProxyType({})


@dataclass(frozen=True)
class Task:
    """What a task needs; Spark sends it to the workers in its closure.

    Args:
        files: the release's project, which workers of a cluster have from nowhere else.
        views: the fingerprints of the source's views, by name.
        maxima, watermark: those of the partitions and the source before the micro-batch.
        known: the words of the identities that were counted within the dedup window. Events that have one are left out.
        admitted: the positions of events that count although another identity has their word.
        drops: the positions of duplicates of events that another task has read.
        generations: the ids of the source's topics, the oldest first.
        secret: the key of identities' digests, in 16 bytes. Producers do not know it.
        versions: what views look up in, as of KnownVersions.
        hand_back: the bytes of events up to which the task also returns the events that it folds; 0 for never.
    """

    files: Mapping[str, bytes]
    source: str
    views: Mapping[str, str]
    maxima: Maxima = field(default_factory=dict)
    watermark: int | None = None
    known: KnownWords = field(default=NOTHING_KNOWN, repr=False)
    admitted: Drops = field(default_factory=dict)
    drops: Drops = field(default_factory=dict)
    generations: tuple[str, ...] = ()
    secret: bytes = field(default=NO_SECRET, repr=False)
    versions: Mapping[str, TaskTable] = field(default_factory=dict, repr=False)
    hand_back: int = 0

    def definitions(self) -> tuple[Source, dict[str, View]]:
        """The source, and one view of each fingerprint."""
        project = load_files(self.files)
        return project.sources[self.source], {fingerprint: project.views[name] for name, fingerprint in self.views.items()}


class Share(msgspec.Struct, frozen=True):
    """The result of one task; the counts of shares add up.

    Args:
        records: the partitions that were read, with their number of records, lowest and highest offset.
        rejected: counts by fingerprint and reason.
        after_final: counts by fingerprint.
        maxima: the newest times by partition, of events that are not ahead.
        newest: the newest append time of all events, in microseconds since 1970.
        partials: by fingerprint, as Arrow IPC streams.
        identities: an Arrow IPC stream.
        last: the offset and hash of the last record of each partition.
        handed_back: the folded events as an Arrow IPC stream; None if the task does not hand them back.
        missing: the schemas that the records name and the task does not have; then nothing of the share counts.
    """

    records: list[tuple[Partition, int, int, int]]
    events: int
    quarantined: dict[str, int]
    duplicates: int
    others: int
    further: int
    late: int
    ahead: int
    after_final: dict[str, int]
    maxima: list[tuple[Partition, Newest]]
    newest: int | None
    rejected: dict[str, dict[str, int]]
    partials: dict[str, bytes]
    identities: bytes
    handed_back: bytes | None = None
    off_calendar: int = 0
    missing: list[SchemaKey] = []
    last: list[tuple[Partition, int, str]] = []
    rejected_events: int = 0
    skipped: int = 0
    rounded: int = 0


def fold(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function of mapInArrow: record batches with record_columns(source), headers as texts, in; at most one row out."""
    some = [batch for batch in map(with_headers, batches) if batch.num_rows]
    if some:
        yield _row(msgspec.msgpack.encode(share_of(task, pa.Table.from_batches(some))))


def identify(task: Task, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Like `fold`, but only the identities, as Arrow IPC streams: one for each bounded number of records."""
    source, _ = task.definitions()
    for records in _pieces(map(with_headers, batches), _PIECE_ROWS // (source.max_events_per_record or 1)):
        found = identified(source, decode(source, records).events, task.generations, secret=task.secret)
        yield _row(to_ipc(identities(source, found)))


def share_of(task: Task, records: pa.Table) -> Share:
    """Decode, drop duplicates and suspects, label late events, prepare the rest, and fold every view."""
    source, views = task.definitions()
    decoded = decode(source, records)
    found = identified(source, decoded.events, task.generations, secret=task.secret, known=task.known)
    new = ~found.suspect | is_at(decoded.events, task.admitted)
    kept = found.single & new & ~is_at(decoded.events, task.drops)
    events = decoded.events if kept.all() else decoded.events.filter(pa.array(kept))
    alone = event_rejects(decoded.rejects)
    return Share(
        records=_by_partition(records),
        quarantined=dict(Counter(decoded.rejects["reason"].to_pylist())),
        duplicates=decoded.events.num_rows - events.num_rows,
        others=decoded.others,
        further=further(decoded.events) + alone.further,
        rejected_events=alone.events,
        skipped=decoded.skipped,
        ahead=int(ahead(source, decoded.events).sum()),
        off_calendar=off_calendar(decoded.events),
        rounded=total_roundings(decoded.events),
        missing=missing_schemas(source, records),
        last=[(place, each.offset, each.hash) for place, each in last_of(records).items()],
        identities=to_ipc(identities(source, found)),
        handed_back=to_ipc(events) if task.hand_back and events.nbytes <= task.hand_back else None,
        **_counted(source, views, task, events),
    )


def without(task: Task, share: Share) -> Share:
    """The share of a task that handed back its events, without those that the task drops: as if it had run again."""
    assert share.handed_back is not None  # the driver asks only for those
    events = from_ipc(share.handed_back)
    dropped = is_at(events, task.drops)
    if not dropped.any():
        return share
    source, views = task.definitions()
    counted = _counted(source, views, task, events.filter(pa.array(~dropped)))
    return msgspec.structs.replace(share, duplicates=share.duplicates + int(dropped.sum()), **counted)


def _counted(source: Source, views: Mapping[str, View], task: Task, events: pa.Table) -> dict[str, Any]:
    """The fields of a share that the events decide which count."""
    labelled = late(source, events, event_times(task.maxima))
    prepared = prepare(source, events, task.generations)
    rows, failed = prepared.events, prepared.failed
    versions = tables(task.versions, views.values(), rows)
    partials = {name: partial(view, rows, EMPTY, failed, versions=versions) for name, view in views.items()}
    return {
        "events": events.num_rows,
        "late": labelled.count,
        "after_final": {name: after_final(view, rows, task.watermark, versions=versions) for name, view in views.items()},
        "maxima": list(maxima_of(source, events).items()),
        "newest": newest_append(events),
        "rejected": {fingerprint: dict(folded.rejected) for fingerprint, folded in partials.items()},
        "partials": {fingerprint: to_ipc(folded.states) for fingerprint, folded in partials.items()},
    }


def tables(versions: Mapping[str, TaskTable], views: Collection[View], events: pa.Table) -> dict[str, pa.Table]:
    """The tables in which views look up; of a large one the versions of the keys that these events look up."""
    read: dict[str, pa.Table] = {}
    for name, table in versions.items():
        if isinstance(table, SmallTable):
            base = from_ipc(table.base if isinstance(table.base, bytes) else table.base.value)
            read[name] = overlay(base, from_ipc(table.added)) if table.added else base
    large = {name: table for name, table in versions.items() if isinstance(table, LargeTable)}
    if not large:
        return read
    keys: dict[str, list[pa.Table]] = {}
    of_versions = {name: each for view in views for name, each in looked_up(view).items()}
    deepest = max((each.depth for view in views for each in bind(view).lookups), default=0)
    for depth in range(deepest + 1):  # a chain looks up by what it has found before
        looking = [each for view in views for each in lookup_keys_of(view, events, read, depth)]
        for name, some in looking:
            keys.setdefault(name, []).append(some)
        for name in large.keys() & {name for name, _ in looking}:
            files, new = large[name]
            read[name] = versions_of_keys(of_versions[name], files, from_ipc(new), pa.concat_tables(keys[name]))
    return read


def shares(rows: pa.Table) -> list[Share]:
    """The shares in the rows that the tasks returned."""
    decoder = msgspec.msgpack.Decoder(Share)
    return [decoder.decode(row) for row in rows["share"].to_pylist()]


def partial_of(share: Share, fingerprint: str) -> Partial:
    """One view's partial of a share, without ranges."""
    return Partial(from_ipc(share.partials[fingerprint]), EMPTY, share.rejected[fingerprint])


def _pieces(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    piece: list[pa.RecordBatch] = []
    for batch in batches:
        piece.append(batch)
        if sum(each.num_rows for each in piece) >= rows:
            yield pa.Table.from_batches(piece)
            piece = []
    if any(each.num_rows for each in piece):
        yield pa.Table.from_batches(piece)


def _row(share: bytes) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"share": pa.array([share], pa.binary())})


def _by_partition(records: pa.Table) -> list[tuple[Partition, int, int, int]]:
    rows, offsets = by_partition(records["topic_id"], records["partition"]), records["offset"].to_numpy()
    return list(zip(rows.partitions, rows.counts(), rows.least(offsets), rows.most(offsets), strict=True))
