"""Recompute the batch views from the whole log, and publish them together with their cut.

A run builds a batch version that nobody reads until one publication names it. Killed at any point, it leaves only files and
rows that no publication names; the next run starts over.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import pyarrow as pa
from pyarrow.fs import FileType

from batch import commits
from batch.archive import decode_archived
from batch.below_cut import BatchViews, Below, build
from batch.cutting import take_cut
from batch.folding import VERSION
from batch.place import Place
from batch.session import Run
from ledger import archive, first, gaps, publications, releases
from ledger.gaps import Gap
from ledger.labels import Labels, labels_below
from ledger.positions import Position
from ledger.publications import BatchView, Publication
from ledger.releases import Release
from views import project
from views.project import Project
from views.source import Source
from views.view import state_schema
from views.windows import WINDOW_COLUMNS

_SCRATCH: Final = "scratch"


@dataclass(frozen=True)
class Recomputed:
    """What was published, and the gaps that its numbers lack."""

    publication: Publication
    gaps: tuple[Gap, ...] = field(default=())


def run(
    batch: Run, working_tree: Callable[[], Project], *, adopt: bool = False, raw: bool = False, accepted: tuple[str, ...] = ()
) -> Recomputed:
    """Recompute every view of the published release and publish; with `adopt`, of the working tree as the next release.

    `raw` reads the archive instead of the events tables. `accepted` names gaps to count without; those of the live
    publication stay accepted. Waits for another run that holds the lock. Raises TandemError.
    """
    tables = batch.tables
    first.live(tables, working_tree, by=batch.by, at=batch.now())
    batch.hold("views")
    live = first.live(tables, working_tree, by=batch.by, at=batch.now())
    release = (
        releases.adopt(tables, working_tree(), by=batch.by, at=batch.now()) if adopt else releases.load(tables, live.release)
    )
    definitions = project.load_files(release.files)
    found = [gap for source in definitions.sources for gap in gaps.gaps(tables, source)]
    gaps.refuse_unaccepted(found, (*accepted, *(gap.name for gap in found if gap.name in live.gaps)))
    if release.number != live.release:
        batch.hold("archive")
        for source in definitions.sources.values():
            decode_archived(batch, release, source)
    # Unique without asking any table for the last one, later ones larger, and exact in every reader's double (53 bits).
    version = (int(batch.now().timestamp() * 1000) << 10) | secrets.randbits(10)
    work = _Work(batch, live, release, definitions, version, raw)
    _sweep(work)
    try:
        views = {name: _build(work, source) for name, source in definitions.sources.items()}
    finally:
        _sweep(work)
    _commit(work, views)
    published = publications.publish(tables, partial(_candidate, work, views, tuple(gap.name for gap in found)))
    assert published is not None  # the candidate is never None
    return Recomputed(published, tuple(found))


@dataclass(frozen=True)
class _Work:
    """What is being recomputed: the release, which is live or will be, under one new batch version."""

    batch: Run
    live: Publication
    release: Release
    definitions: Project
    version: int
    raw: bool

    @property
    def scratch(self) -> Place:
        """Where tasks leave files for each other."""
        return commits.place(self.batch.tables, f"{self.batch.tables.root.rstrip('/')}/{_SCRATCH}")


@dataclass(frozen=True)
class _Built:
    """A source's batch views, and the cut below which they count everything."""

    cut: Position
    views: BatchViews


def _build(work: _Work, source: Source) -> _Built:
    tables, release = work.batch.tables, work.release
    end = archive.end(tables, source.name, release.sources[source.name])
    if not end.offsets:
        work.batch.say(f"{source.name}: nothing is archived yet, so there is nothing to fold; `tandem archive` comes first")
    cut = take_cut(work.batch, release.number, source.name, end)
    views = tuple(name for name, view in work.definitions.views.items() if view.source.name == source.name)
    work.batch.say(f"{source.name}: folding {len(views)} views below {cut}")
    below = Below(release, source, cut, views, work.version, work.raw)
    return _Built(cut, build(work.batch, below, work.scratch))


def _commit(work: _Work, built: Mapping[str, _Built]) -> None:
    """Make the files part of the views' tables; nothing reads the new version until it is published."""
    tables = work.batch.tables
    files = [file for one in built.values() for file in one.views.files]
    for name, view in work.definitions.views.items():
        schema = state_schema(view).append(pa.field(VERSION, pa.int64()))
        address = tables.view(name, work.release.views[name])
        handle = commits.make_table(tables, address, schema, partition_by=VERSION, bounded=WINDOW_COLUMNS)
        commits.add_files(handle, [file.file for file in files if file.view == name])


def _candidate(work: _Work, built: Mapping[str, _Built], lacking: tuple[str, ...], parent: Publication | None) -> Publication:
    """The next publication. Raises NotPublishable if the release that the run started from is no longer live."""
    publications.refuse_stale(parent, work.live)
    assert parent is not None  # else it is stale
    rows: Counter[str] = Counter()
    for file in (file for one in built.values() for file in one.views.files):
        rows[file.view] += file.file.rows
    views = {name: BatchView(fingerprint, work.version, rows[name]) for name, fingerprint in work.release.views.items()}
    labels = {name: _labels(work, name, one, parent) for name, one in built.items()}
    return Publication(
        number=0,
        parent=parent.number,
        at=work.batch.now(),
        by=work.batch.by,
        kind="recompute" if work.release.number == work.live.release else "promote",
        release=work.release.number,
        cuts={name: one.cut for name, one in built.items()},
        views=views,
        counts={name: replace(one.views.counts, late=labels[name].late) for name, one in built.items()},
        rejected={view: reasons for one in built.values() for view, reasons in one.views.rejected.items()},
        newest={name: one.views.newest for name, one in built.items() if one.views.newest is not None},
        maxima={name: one.views.maxima for name, one in built.items()},
        watermarks={name: one.watermark for name, one in labels.items() if one.watermark is not None},
        after_final={view: count for one in labels.values() for view, count in one.after_final.items()},
        gaps=lacking,
    )


def _labels(work: _Work, source: str, built: _Built, parent: Publication) -> Labels:
    tables, release = work.batch.tables, work.release
    before = release if parent.release == release.number else releases.load(tables, parent.release)
    return labels_below(
        tables,
        parent,
        source,
        built.cut,
        views={name: release.views[name] for name, view in work.definitions.views.items() if view.source.name == source},
        maxima=built.views.maxima,
        idle=work.definitions.sources[source].idle,
        # Another decoder may give the same records other event times.
        same_times=before.sources.get(source) == release.sources[source],
    )


def _sweep(work: _Work) -> None:
    """Remove scratch files, also those that a killed run left: the lock says that nobody else has any."""
    places = work.scratch.file_system()
    if places.get_file_info(["."])[0].type == FileType.Directory:
        places.delete_dir_contents(".", accept_root_dir=True)
