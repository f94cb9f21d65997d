"""Build the batch views of one source from events below its cut, read from the events table or from the archive itself."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from batch.archive import decode
from batch.fold import duplicates, fold
from batch.fold.columns import sees_positions
from batch.recompute.plan import Gained
from batch.recompute.served_state import Served
from batch.runtime.file_ranges import EVENTS, RECORDS, Span, rows_within, spans, within_times
from batch.runtime.parallelism import FEW_ROWS, buckets, slices
from batch.runtime.scan import inside, scan
from batch.runtime.session import Run
from batch.runtime.splits import Slice, cut, even_rows
from ledger.delta import delta_tables
from ledger.delta.addresses import Tables
from ledger.delta.location import Place
from ledger.log import archive
from ledger.log.counts import Counts, add
from ledger.log.fetch_checks import Unclosed
from ledger.log.positions import LOG_START, Position, ranges
from ledger.publish.batch_parts import BatchView, Part, Windows, files_of
from ledger.publish.releases import Release
from ledger.realtime.commit_files import read_spans
from ledger.realtime.tiling import chain
from views.errors import TandemError
from views.instant import instant
from views.kernel.deduplicate import identity_columns
from views.project import project
from views.source.offset_ranges import Ranges
from views.source.source import Source
from views.source.watermark import Maxima, newest
from views.verify.compare import MeasureDifference, plus

SERVED: Final[fold.Pair] = ("served", "folded")
REPLAYED: Final[fold.Pair] = ("replayed", "folded")
SERVED_AND_REPLAYED: Final[fold.Pair] = ("served", "replayed")

_DECODE_ROWS: Final = 1_000_000
_SCAN_ROWS: Final = 1 << 18
_COMMITS: Final = 32
"""Files of the realtime table that one task reads."""


class Displaced(TandemError):
    """A new copy comes, in the order of the log, before an event that is counted already."""


@dataclass(frozen=True)
class Below:
    """What to build from: the events of `[start, cut)` of a release's source, and states that there are.

    `views` has, for each view that is built, the newest of its parts, whose states are merged with what is folded. Without a
    `version` nothing is built. With `windows` only windows that start in these bounds are. Of views that `gained` measures only
    these are folded. What is folded is compared with what was `served`, and both with what was `replayed`: a realtime table of
    the same release that reaches the cut. `live` has the batch views that there are, whose tables are read and written.
    """

    release: Release
    source: Source
    start: Position
    cut: Position
    views: Mapping[str, tuple[Part, ...]] = field(hash=False)
    version: int | None
    raw: bool = False
    windows: Windows | None = None
    served: Served | None = None
    replayed: Tables | None = None
    gained: Mapping[str, Gained] = field(default_factory=dict, hash=False)
    live: Mapping[str, BatchView] = field(default_factory=dict, hash=False)

    @property
    def pairs(self) -> tuple[fold.Pair, ...]:
        """What is compared with what."""
        if self.served is None:
            return ()
        return (SERVED,) if self.replayed is None else (SERVED, REPLAYED, SERVED_AND_REPLAYED)


@dataclass(frozen=True)
class BatchViews:
    """The files of the views' batch version, and what was counted on the way.

    `newest` is the append time of the newest event: what its record's timestamp says, or when the archive had it, whichever is
    earlier. `differences` are by what was compared, then by view. Of the views that are `unlike`, new measures have other rows
    than the other measures: nothing was built of these.
    """

    files: tuple[fold.Built, ...]
    counts: Counts
    rejected: Mapping[str, Mapping[str, int]] = field(hash=False)
    maxima: Maxima = field(hash=False)
    newest: datetime | None
    differences: Mapping[fold.Pair, Mapping[str, tuple[MeasureDifference, ...]]] = field(hash=False)
    unlike: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Events:
    """Where the events below the cut are, what did not become an event, and how many records there are.

    `records` is None of a source whose topics have nobody else's records, because it is not needed then.
    """

    place: Place
    files: tuple[Span, ...]
    quarantined: Mapping[str, int] = field(hash=False)
    records: int | None = None


def build(batch: Run, below: Below, scratch: Place) -> BatchViews:
    """Fold into files of every view's table, which are not part of it until they are committed.

    Raises Displaced if what is counted below the start would have to be counted otherwise, jobs.TaskFailed, and Unclosed if
    the tables do not hold what the archive's ledger says.
    """
    tables, name = batch.tables, below.source.name
    covered = ranges(below.start, below.cut, archive.firsts(tables, name))
    events = _decoded(batch, below, covered, scratch) if below.raw else _stored(batch, below, covered)
    files, firsts = _of_windows(below, events), archive.firsts(tables, name)
    end = below.cut if below.served is None else below.served.end
    compared, beyond = (_slices(batch, files, ranges(*part, firsts)) for part in ((below.start, end), (end, below.cut)))
    parts = [*compared, *beyond]
    views = project.load_files(below.release.files).views
    found = _duplicates(batch, below, events, parts, scratch)
    if found.contested or (found.displaced and any(sees_positions(views[view]) for view in below.views)):
        raise Displaced(
            f"{found.displaced} counted events have earlier duplicates in another partition of the log, {found.contested} of "
            "them with other contents"
        )
    places = {view: Place.of(tables, _address(batch, below, view)) for view in below.views}
    gained = {view: one.there.address(tables, view) for view, one in below.gained.items()}
    stored = [file for view, merged in below.views.items() for file in _parts(batch, view, _address(batch, below, view), merged)]
    for view, address in gained.items():
        stored += _parts(batch, view, address, below.gained[view].there.parts)
    others = [*_served(batch, below), *_replayed(below)]
    rows = sum(part.rows for part in parts) + sum(file.rows for file in stored)
    work = fold.Folding(
        below.release.files,
        name,
        events.place,
        places,
        scratch,
        found.files,
        below.version,
        buckets=buckets(rows, [views[view] for view in below.views], parallelism=batch.parallelism),
        windows=below.windows,
        pairs=below.pairs,
        generations=archive.generations(tables, name),
        added={view: fold.Added(below.gained[view].measures, Place.of(tables, address)) for view, address in gained.items()},
    )
    items = [*compared, *map(fold.Beyond, beyond), *stored, *others]
    folded, built, differ = fold.fold(batch.session, work, items)
    counted = sum(one.events for one in folded)
    counts = Counts(
        counted,
        events.quarantined,
        duplicates=found.duplicates,
        conflicts=found.conflicts,
        further=sum(one.further for one in folded),
        ahead=sum(one.ahead for one in folded),
    )
    left = covered.length - counts.records - counts.rejects
    holes = left if events.records is None else covered.length - events.records
    theirs = left - holes
    if below.windows is None:
        _refuse_unexplained(batch, below, holes, theirs)
    return BatchViews(
        files=tuple(one for one in built if isinstance(one, fold.Built)),
        counts=replace(counts, holes=holes, others=theirs),
        rejected={view: add(*(one.rejected[view] for one in folded)) for view in below.views},
        maxima=newest(one.maxima for one in folded),
        newest=_newest(batch, below, [one.newest for one in folded if one.newest is not None]),
        differences={
            pair: {view: _added([one.differences for one in differ if (one.view, one.pair) == (view, pair)]) for view in places}
            for pair in work.pairs
        },
        unlike=frozenset(one.view for one in built if isinstance(one, fold.Unlike)),
    )


def _newest(batch: Run, below: Below, stamps: Sequence[int]) -> datetime | None:
    """The newest of these append times, in microseconds since 1970; a producer's clock may run ahead of when it was archived."""
    if not stamps:
        return None
    archived = archive.reached_at(batch.tables, below.source.name, below.cut)
    return min(instant(max(stamps)), archived)


def _added(buckets: Sequence[Sequence[MeasureDifference]]) -> tuple[MeasureDifference, ...]:
    """The differences of each measure, of all buckets."""
    return tuple(plus(*parts) for parts in zip(*buckets, strict=True))


def _served(batch: Run, below: Below) -> Iterator[fold.Stored | fold.Commits]:
    """The files of what was served."""
    if below.served is None:
        return
    for view, parts in below.served.parts.items():
        yield from (replace(file, side="served") for file in _parts(batch, view, _address(batch, below, view), parts))
    yield from _commits(batch.tables, below, below.served.commits, "served")


def _replayed(below: Below) -> Iterator[fold.Commits]:
    """The files of what was replayed. Raises Unclosed if they do not tile what is folded."""
    if below.replayed is None:
        return
    address = below.replayed.realtime(below.release.number, below.source.name)
    handle = delta_tables.open_table(below.replayed, address)
    paths = {} if handle is None else {span: path for path, span in read_spans(handle, {}).items()}
    tiled = chain(paths, below.start)
    if tiled.end != below.cut:
        raise Unclosed(f"the replay of source {below.source.name!r} ends at {tiled.end}, not at the cut {below.cut}")
    yield from _commits(below.replayed, below, [paths[span] for span in tiled.commits], "replayed")


def _commits(tables: Tables, below: Below, paths: Sequence[str], side: fold.Side) -> Iterator[fold.Commits]:
    table = Place.of(tables, tables.realtime(below.release.number, below.source.name))
    fingerprints = {view: below.release.views[view] for view in below.views}
    for start in range(0, len(paths), _COMMITS):
        yield fold.Commits(table, tuple(paths[start : start + _COMMITS]), fingerprints, side)


def _slices(batch: Run, files: Sequence[Span], covered: Ranges) -> list[Slice]:
    return slices(files, covered, parallelism=batch.parallelism, task_mb=batch.settings.batch.task_mb)


def _of_windows(below: Below, events: _Events) -> Sequence[Span]:
    """The files with events of the windows that are built."""
    if below.windows is None or below.source.prepare is not None:  # which may move events in time
        return events.files
    return within_times(events.files, *below.windows)


def _duplicates(batch: Run, below: Below, events: _Events, parts: list[Slice], scratch: Place) -> duplicates.Duplicates:
    """The duplicates among the events that are folded, copies of what lies below the start too."""
    source, firsts = below.source, archive.firsts(batch.tables, below.source.name)
    if not source.identity:
        return duplicates.Duplicates()
    timed = source.event_time in identity_columns(source)
    covered = ranges(below.start, below.cut, firsts)
    if below.windows is not None and not timed:
        parts = _slices(batch, events.files, covered)
    history: list[Slice] = []
    if below.start.offsets:
        new = [file.times for file in events.files if rows_within([file], covered)]
        before: Sequence[Span] = events.files
        if timed and new and None not in new:
            known = [times for times in new if times is not None]
            before = within_times(before, min(low for low, _ in known), max(high for _, high in known))
        history = _slices(batch, before, ranges(LOG_START, below.start, firsts))
    search = duplicates.Search(
        below.release.files,
        source.name,
        events.place,
        scratch,
        archive.generations(batch.tables, source.name),
        covered if below.start.offsets else None,
    )
    return duplicates.find(batch.session, search, parts, history=history, parallelism=batch.parallelism)


def _address(batch: Run, below: Below, view: str) -> str:
    """Of the table that is being built."""
    return below.live.get(view, BatchView(below.release.views[view])).address(batch.tables, view)


def _parts(batch: Run, view: str, address: str, merged: tuple[Part, ...]) -> Iterator[fold.Stored]:
    """The files of parts, each of which may be stood in for by those after it."""
    for number, part in enumerate(merged):
        _, files = files_of(batch.tables, address, part)
        yield from (fold.Stored(view, file.path, file.rows, merged[number + 1 :]) for file in files)


def _stored(batch: Run, below: Below, covered: Ranges) -> _Events:
    """The events and quarantine tables."""
    tables, name, decoder = batch.tables, below.source.name, below.release.sources[below.source.name]
    events = delta_tables.open_table(tables, tables.events(name, decoder))
    quarantine = delta_tables.open_table(tables, tables.quarantine(name, decoder))
    rejects = [] if quarantine is None else [span for span in spans(quarantine, RECORDS) if rows_within([span], covered)]
    part = Slice(covered, tuple(span.path for span in rejects), sum(span.rows for span in rejects))
    reasons = Counter[str]()
    for rows in scan(Place.of(tables, tables.quarantine(name, decoder)), part, RECORDS, ["reason"], rows=_SCAN_ROWS):
        reasons.update(rows["reason"].to_pylist())
    return _Events(
        place=Place.of(tables, tables.events(name, decoder)),
        files=() if events is None else tuple(spans(events, EVENTS, below.source.event_time)),
        quarantined=dict(sorted(reasons.items())),
        records=None if below.source.only is None else _archived(batch, name, covered),
    )


def _archived(batch: Run, name: str, covered: Ranges) -> int:
    """How many records the archive has in these ranges."""
    tables = batch.tables
    records = delta_tables.open_table(tables, tables.archive(name))
    files = [] if records is None else spans(records, RECORDS)
    # Mostly a file is inside, and has only to be asked how many rows it has.
    whole = [span for span in files if inside(span, covered)]
    part = Slice(covered, tuple(span.path for span in files if span not in whole), 0)
    found = scan(Place.of(tables, tables.archive(name)), part, RECORDS, [RECORDS.offset], rows=_SCAN_ROWS)
    return sum(span.rows for span in whole) + sum(int(rows.num_rows) for rows in found)


def _decoded(batch: Run, below: Below, covered: Ranges, scratch: Place) -> _Events:
    """The archive's records decoded into scratch files."""
    tables, name = batch.tables, below.source.name
    records = delta_tables.open_table(tables, tables.archive(name))
    files = [] if records is None else spans(records, RECORDS)
    rows = even_rows(rows_within(files, covered), batch.parallelism, least=FEW_ROWS, most=_DECODE_ROWS)
    work = decode.Decoding(below.release.files, name, Place.of(tables, tables.archive(name)), scratch, scratch)
    decoded = decode.decode(batch.session, work, cut(files, covered, rows=rows))
    return _Events(
        scratch,
        tuple(decoded.event_spans()),
        dict(sorted(decoded.quarantined.items())),
        decoded.records if below.source.only is not None else None,
    )


def _refuse_unexplained(batch: Run, below: Below, holes: int, others: int) -> None:
    """Raise Unclosed if more offsets are empty, or others', than the archive found so: then rows are missing from a table."""
    name = below.source.name
    runs = {
        run.number
        for run in archive.runs(batch.tables, name)
        if not below.cut.at_or_below(run.start) and not run.end.at_or_below(below.start)
    }
    summaries = archive.summaries(batch.tables, name, below.release.sources[name])
    found = [summary.counts for summary in summaries if summary.run in runs]
    explained, theirs = sum(counts.holes for counts in found), sum(counts.others for counts in found)
    if not 0 <= holes <= explained or not 0 <= others <= theirs:
        raise Unclosed(
            f"from {below.start} to the cut {below.cut} of source {name!r}, {holes + others} offsets have neither an event nor a "
            f"reject, but the archive found {explained} empty and {theirs} of other sources; an events or quarantine table has "
            "lost or doubled rows; nothing was published"
        )
