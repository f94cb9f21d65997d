"""Build the batch views of one source: all events below its cut, read from the events table or from the archive itself."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from batch import commits, decoding, duplicates, folding
from batch.place import Place
from batch.scan import scan
from batch.session import Run
from batch.sizes import FEW_ROWS, buckets, slices
from batch.slices import Slice, cut, even_rows
from batch.spans import EVENTS, RECORDS, Span, rows_within, spans
from ledger import archive, delta
from ledger.counts import Counts, add
from ledger.fetched import Unclosed
from ledger.positions import LOG_START, Position, ranges
from ledger.releases import Release
from views import project
from views.ranges import Ranges
from views.source import Source
from views.watermark import Maxima, append_time, newest

_DECODE_ROWS: Final = 1_000_000
_SCAN_ROWS: Final = 1 << 18
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Below:
    """What to build from: a release's source, everything of it below the cut, and the views to build."""

    release: Release
    source: Source
    cut: Position
    views: tuple[str, ...]
    version: int
    raw: bool = False


@dataclass(frozen=True)
class BatchViews:
    """The files of the views' batch version, and what was counted on the way."""

    files: tuple[folding.Built, ...]
    counts: Counts
    rejected: Mapping[str, Mapping[str, int]] = field(hash=False)
    maxima: Maxima = field(hash=False)

    @property
    def newest(self) -> datetime | None:
        """The append time of the newest event."""
        time = append_time(self.maxima)
        return None if time is None else _EPOCH + timedelta(microseconds=time)


@dataclass(frozen=True)
class _Events:
    """Where the events below the cut are, and what did not become an event."""

    place: Place
    files: tuple[Span, ...]
    quarantined: Mapping[str, int] = field(hash=False)


def build(batch: Run, below: Below, scratch: Place) -> BatchViews:
    """Fold everything below the cut into files of every view's table, which are not part of it until they are committed.

    Raises jobs.TaskFailed, and Unclosed if the tables do not hold what the archive's ledger says.
    """
    tables, name = batch.tables, below.source.name
    covered = ranges(LOG_START, below.cut, archive.firsts(tables, name))
    events = _decoded(batch, below, covered, scratch) if below.raw else _stored(batch, below, covered)
    parts = slices(events.files, covered, parallelism=batch.parallelism, task_mb=batch.settings.batch.task_mb)
    definitions = below.release.files
    found = duplicates.Duplicates()
    if below.source.identity:
        search = duplicates.Search(definitions, name, events.place, scratch, archive.generations(tables, name))
        found = duplicates.find(batch.session, search, parts, parallelism=batch.parallelism)
    rows = sum(part.rows for part in parts)
    views = project.load_files(definitions).views
    places = {view: commits.place(tables, tables.view(view, below.release.views[view])) for view in below.views}
    work = folding.Folding(
        definitions,
        name,
        events.place,
        places,
        scratch,
        found.files,
        below.version,
        buckets=buckets(rows, [views[view] for view in below.views], parallelism=batch.parallelism),
    )
    folded, built = folding.fold(batch.session, work, parts)
    counted = sum(one.events for one in folded)
    holes = covered.length - counted - found.duplicates - sum(events.quarantined.values())
    _refuse_unexplained(batch, below, holes)
    return BatchViews(
        files=tuple(built),
        counts=Counts(counted, events.quarantined, holes, duplicates=found.duplicates, conflicts=found.conflicts),
        rejected={view: add(*(one.rejected[view] for one in folded)) for view in below.views},
        maxima=newest(one.maxima for one in folded),
    )


def _stored(batch: Run, below: Below, covered: Ranges) -> _Events:
    """The events and quarantine tables."""
    tables, name, decoder = batch.tables, below.source.name, below.release.sources[below.source.name]
    events = delta.open_table(tables, tables.events(name, decoder))
    quarantine = delta.open_table(tables, tables.quarantine(name, decoder))
    rejects = [] if quarantine is None else [span for span in spans(quarantine, RECORDS) if rows_within([span], covered)]
    part = Slice(covered, tuple(span.path for span in rejects), sum(span.rows for span in rejects))
    reasons = Counter[str]()
    for rows in scan(commits.place(tables, tables.quarantine(name, decoder)), part, RECORDS, ["reason"], rows=_SCAN_ROWS):
        reasons.update(rows["reason"].to_pylist())
    return _Events(
        place=commits.place(tables, tables.events(name, decoder)),
        files=() if events is None else tuple(spans(events, EVENTS)),
        quarantined=dict(sorted(reasons.items())),
    )


def _decoded(batch: Run, below: Below, covered: Ranges, scratch: Place) -> _Events:
    """The archive's records decoded into scratch files."""
    tables, name = batch.tables, below.source.name
    records = delta.open_table(tables, tables.archive(name))
    files = [] if records is None else spans(records, RECORDS)
    rows = even_rows(rows_within(files, covered), batch.parallelism, least=FEW_ROWS, most=_DECODE_ROWS)
    work = decoding.Decoding(below.release.files, name, commits.place(tables, tables.archive(name)), scratch, scratch)
    decoded = decoding.decode(batch.session, work, cut(files, covered, rows=rows))
    return _Events(scratch, tuple(decoded.event_spans()), dict(sorted(decoded.quarantined.items())))


def _refuse_unexplained(batch: Run, below: Below, holes: int) -> None:
    """Raise Unclosed if more offsets are empty than the archive found empty: then rows are missing from a table."""
    name = below.source.name
    starts = {run.number: run.start for run in archive.runs(batch.tables, name)}
    summaries = archive.summaries(batch.tables, name, below.release.sources[name])
    explained = sum(summary.counts.holes for summary in summaries if not below.cut.at_or_below(starts[summary.run]))
    if not 0 <= holes <= explained:
        raise Unclosed(
            f"below the cut {below.cut} of source {name!r}, {holes} offsets have neither an event nor a reject, where the "
            f"archive found {explained} empty; an events or quarantine table has lost or doubled rows, nothing was published"
        )
