"""Which files hold states that a rebuild merges with what it folds, or compares with it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from batch.fold import fold
from batch.rebuild.inputs import RebuildJob
from ledger.delta.addresses import Tables
from ledger.delta.location import Location
from ledger.log.fetch_checks import Unclosed
from ledger.publish.batch_parts import BatchView, Part, files_with_later
from ledger.realtime.commit_files import paths_by_span
from ledger.realtime.tiling import chain

_COMMITS: Final = 32
"""Files of the realtime table that one task reads."""


def merged_files(tables: Tables, job: RebuildJob) -> Iterator[fold.Stored]:
    """The files of the parts that are merged with what is folded. Raises Unreadable."""
    for view, parts in job.views.items():
        yield from _files(tables, view, job.batch_view(view), parts)
    for view, gained in job.gained.items():
        yield from _files(tables, view, gained.there, gained.there.parts)


def served_files(tables: Tables, job: RebuildJob) -> Iterator[fold.Stored | fold.Commits]:
    """The files that answers were merged from. Raises Unreadable."""
    if job.served is None:
        return
    for view, parts in job.served.parts.items():
        yield from (replace(file, side="served") for file in _files(tables, view, job.batch_view(view), parts))
    yield from _commits(tables, job, job.served.commits, "served")


def replayed_files(job: RebuildJob) -> Iterator[fold.Commits]:
    """The files of the replayed realtime table. Raises Unclosed if they do not tile the range that is folded."""
    if job.replayed is None:
        return
    paths = paths_by_span(job.replayed, job.release.number, job.source.name)
    tiled = chain(paths, job.start)
    if tiled.end != job.cut:
        raise Unclosed(f"the replay of source {job.source.name!r} ends at {tiled.end}, not at the cut {job.cut}")
    yield from _commits(job.replayed, job, [paths[span] for span in tiled.commits], "replayed")


def _files(tables: Tables, view: str, there: BatchView, parts: tuple[Part, ...]) -> Iterator[fold.Stored]:
    """The files of parts of a batch view; each part's states may be replaced by the parts after it."""
    files = files_with_later(tables, there.address(tables, view), parts)
    yield from (fold.Stored(view, file.path, file.rows, later) for file, later in files)


def _commits(tables: Tables, job: RebuildJob, paths: Sequence[str], side: fold.Side) -> Iterator[fold.Commits]:
    table = Location.of(tables, tables.realtime(job.release.number, job.source.name))
    fingerprints = {view: job.release.views[view] for view in job.views}
    for start in range(0, len(paths), _COMMITS):
        yield fold.Commits(table, tuple(paths[start : start + _COMMITS]), fingerprints, side)
