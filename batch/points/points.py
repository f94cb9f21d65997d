"""Measures as they were answered at given times: for each row of a spine, from the events below the published cut."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final, Self

import numpy as np
import pyarrow as pa

from tandem.batch.points.copies import Arrival
from tandem.batch.points.fold_points import Known, LogPiece, PointsJob, SpinePiece, fold, send
from tandem.batch.points.log_of_part import LogOfPart, log_of_part
from tandem.batch.points.spine import AT, ROW, BadSpine, Spine
from tandem.batch.runtime import scratch, spark_jobs
from tandem.batch.runtime.parallelism import buckets, slices
from tandem.batch.runtime.parquet_writer import TableFile
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.files.file_ranges import EVENTS, log_table
from tandem.ledger.log.archived_range import archived_range
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.positions import LOG_START, Position
from tandem.ledger.publish.publications import Publication, no_publication
from tandem.ledger.publish.releases import Release
from tandem.views.arrow import arrays
from tandem.views.arrow.arrays import from_ipc, to_ipc
from tandem.views.composite.current_rows import RowsView
from tandem.views.composite.rollup import root
from tandem.views.composite.table import looked_up
from tandem.views.composite.together import parts
from tandem.views.errors import TandemError, listed
from tandem.views.instant import MICROSECOND, microseconds, time_of, utc_text
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.united_source import sources_of
from tandem.views.source.watermark import least
from tandem.views.sql import engine
from tandem.views.view import View, answer_schema, bind
from tandem.views.windows import Current

Features = Mapping[str, Sequence[str]]
"""By view the measures that rows get."""

_PIECE: Final = 1 << 17
_SPINE: Final = "_spine"


class BadFeatures(TandemError, code="features-invalid"):
    """Features that no published view has, or that have no value as of a time."""


@dataclass(frozen=True)
class Points:
    """The rows of the spine in their order, with a column for each feature, and the publication that they were computed from."""

    rows: pa.Table
    publication: Publication
    features: tuple[str, ...]


@dataclass(frozen=True)
class PublishedLog:
    """The log below the live cut, from which points are computed; `positions` by source, if points are positions, not times."""

    batch: BatchRun
    live: Publication
    release: Release
    positions: Mapping[str, tuple[Position, ...]] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, batch: BatchRun) -> Self:
        """Take the lock of the views' tables, and load the live release. Raises TandemError if nothing is published."""
        batch.hold("views")
        live = batch.standing.publications.latest()
        if live is None or not live.cuts:
            raise no_publication()
        return cls(batch, live, batch.releases.load(live.release))

    def newest_expiry(self, view: View) -> datetime | None:
        """The greatest event time of records that the view's sources keep no longer; None without any. Raises Unreadable."""
        erasures = Erasures(self.batch.tables)
        times = (erasures.until(source.name) for source in sources_of(view.source))
        return max((time for time in times if time is not None), default=None)


def points(
    batch: BatchRun,
    spine: Spine,
    features: Features,
    *,
    columns: Mapping[str, str] | None = None,
    knowledge: Known = "append",
    strict: bool = False,
) -> Points:
    """The measures of views for each row of the spine as of its time, in the window that the time is in.

    `columns` names the spine's columns of keys that are called otherwise there. With `known` "append" a row gets what was
    answered at its time, by the append times of the log; with "event" what would have been answered if all events had come at
    once. `strict` refuses times after a view's watermark at the cut. NULL where there was no row to answer with. Times in windows
    of which records have expired are refused.

    Raises BadFeatures, BadSpine, TaskFailed, Unreadable.
    """
    log = PublishedLog.of(batch)
    live, definitions = log.live, project.load_files(log.release.files)
    views = {name: _view(definitions, name, measures) for name, measures in features.items()}
    for view in views.values():
        if strict:
            _refuse_after(spine, view, _watermark(live, view))
        _refuse_partial_windows(spine, view, log.newest_expiry(view))
    rows, names = spine.rows, list[str]()
    for key in columns or {}:
        if not any(key in view.keys for view in views.values()):
            every = dict.fromkeys(each for view in views.values() for each in view.keys)
            raise BadFeatures(f"no view of these features has a key {key!r}, which --key names; keys: {listed(key, every)}")
    scratch.clear(batch.tables)
    try:
        for name, view in views.items():
            batch.say(f"{name}: {', '.join(features[name])} as of {rows.num_rows} times")
            keyed = spine.with_keys(view, columns or {})
            results = _in_order(view, features[name], measures_at(log, keyed, view, features[name], knowledge), keyed.num_rows)
            for measure in features[name]:
                names.append(f"{name}__{measure}")
                if names[-1] in rows.column_names:
                    raise BadSpine(f"the spine has a column {names[-1]!r} already, which is the name of a feature")
                rows = rows.append_column(answer_schema(view).field(measure).with_name(names[-1]), results[measure])
    finally:
        scratch.clear(batch.tables)
    return Points(rows, live, tuple(names))


def _view(definitions: Project, name: str, measures: Sequence[str]) -> View:
    every = definitions.every_view
    if name not in every:
        raise BadFeatures(f"no view {name!r} is published; views: {listed(name, every)}")
    view = every[name]
    for measure in measures:
        if measure not in view.measures:
            raise BadFeatures(f"view {name!r} has no measure {measure!r}; measures: {listed(measure, view.measures)}")
    if bind(view).placement.in_order:
        raise BadFeatures(f"view {name!r} has window {view.window}, in the order of the log, so it has no row of a time")
    if of_table(view):
        raise BadFeatures(f"view {name!r} is of a table's rows; `tandem query {name} --at TIME` has those of a time")
    if looks_up(view):
        raise BadFeatures(
            f"view {name!r} looks up in a table, whose versions as they were known at a time `points` does not compute yet"
        )
    return view


def of_table(view: View) -> bool:
    """Whether the view's rows are those of a table."""
    return isinstance(view, RowsView) or isinstance(root(view).window, Current)


def looks_up(view: View) -> bool:
    """Whether the view looks up in a table of a source."""
    return any(looked_up(part) for part in parts(root(view)))


def _watermark(live: Publication, view: View) -> int | None:
    return least([live.watermarks.get(source.name) for source in sources_of(view.source)])


def _refuse_after(spine: Spine, view: View, watermark: int | None) -> None:
    late = np.flatnonzero(spine.times > (watermark if watermark is not None else np.iinfo(np.int64).min))
    if len(late):
        first, at = int(late[0]), utc_text(time_of(int(spine.times[late[0]])))
        reached = "there is none yet" if watermark is None else utc_text(time_of(watermark))
        raise BadSpine(
            f"{len(late)} rows of the spine are after the watermark of view {view.name!r} at the published cut ({reached}), the "
            f"first of them row {first + 1} at {at}; recompute first, or leave out --strict"
        )


def _refuse_partial_windows(spine: Spine, view: View, until: datetime | None) -> None:
    """Refuse rows in windows that begin before records of them have expired: these windows have only a part of their events."""
    first_at = bind(view).placement.timing.first_at
    if until is None or first_at is None:
        return
    first = first_at(until + MICROSECOND)
    early = np.flatnonzero(spine.times < microseconds(first))
    if len(early):
        at = utc_text(time_of(int(spine.times[early[0]])))
        raise BadSpine(
            f"{len(early)} rows of the spine are in windows of view {view.name!r} of which records have expired, the first of "
            f"them row {early[0] + 1} at {at}; the first window that has all of its records begins at {utc_text(first)}"
        )


def measures_at(
    published: PublishedLog, keyed: pa.Table, view: View, measures: Sequence[str], knowledge: Known
) -> list[pa.Table]:
    """The measures of the spine's rows, each with its number `ROW`; rows for which no event counts are absent."""
    batch = published.batch
    if not keyed.num_rows:
        return []
    place = scratch.scratch(batch.tables)
    logs, items, size = dict[str, LogOfPart](), list[SpinePiece | LogPiece](), keyed.num_rows
    for part in parts(root(view)):
        logs[part.name], pieces, rows = _log(published, part)
        items += pieces
        size += rows
    items += [SpinePiece(to_ipc(keyed.slice(start, _PIECE))) for start in range(0, keyed.num_rows, _PIECE)]
    names = [name for name in keyed.column_names if name not in (ROW, AT)]
    file = TableFile(place, keyed.select(names).schema)
    if names and keyed.num_rows:
        with file:
            file.write(engine.query(f"SELECT DISTINCT {', '.join(names)} FROM {_SPINE}", {_SPINE: keyed.select(names)}))
    job = PointsJob(
        published.release.files,
        view.name,
        tuple(measures),
        knowledge,
        logs,
        place,
        "" if file.written is None else file.written.path,
        buckets(size, in_log_order=True, parallelism=batch.parallelism),
    )
    results = spark_jobs.each_then(batch.session, partial(send, job), partial(fold, job), items, job.buckets)
    return [from_ipc(each) for each in results]


def _log(published: PublishedLog, part: View) -> tuple[LogOfPart, Iterator[LogPiece], int]:
    """The events of a part's source below the cut, in pieces, and about how many there are."""
    batch, live, release = published.batch, published.live, published.release
    source, tables = part.source, batch.tables
    decoder = release.sources[source.name]
    log = log_table(tables, tables.events(source.name, decoder), EVENTS, source.time_column)
    archived = archived_range(tables, source.name, decoder, LOG_START, live.cut(source.name))
    cut = slices(log.files, archived.covered, parallelism=batch.parallelism, task_mb=batch.settings.batch.task_mb)
    arrival = Arrival(published.positions.get(source.name, ()))
    of_part, pieces = log_of_part(batch, release.files, source, LogOfPart(log.place, archived.generations, arrival=arrival), cut)
    return of_part, (LogPiece(part.name, piece) for piece in pieces), sum(piece.rows for piece in cut)


def _in_order(view: View, measures: Sequence[str], results: Sequence[pa.Table], rows: int) -> dict[str, pa.Array]:
    """The measures of this number of rows, in order; NULL for a row that no result has."""
    schema = pa.schema([answer_schema(view).field(measure) for measure in measures])
    if not results:
        return {field.name: pa.nulls(rows, field.type) for field in schema}
    every = pa.concat_tables(results)
    at = np.full(rows, -1, dtype=np.int64)
    at[every[ROW].to_numpy()] = np.arange(every.num_rows)
    where = arrays.from_numpy(at, pa.int64(), at >= 0)
    return {field.name: arrays.whole(every[field.name].take(where)) for field in schema}
