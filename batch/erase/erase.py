"""Erase records of a source, step by step; the journal of erasures has each step before the next one begins.

1. `intended`: the positions are recorded. From here on nothing brings the records back.
2. `removed`: archive, events and quarantine of every decoder are written again without the records.
3. `refolded`: one publication counts without the records; earlier ones and standing releases are retired.
4. `erased`: what outputs have stored, batch versions, realtime commits, examples and files that had the records are deleted.

Each step can be repeated: a run that was killed is finished by the next run for the source, whichever records that selects.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from tandem.batch.erase.delete_erased import delete_files
from tandem.batch.erase.find_records import FoundRecords, NotForgotten, RecordSelection, find_records, rows_of
from tandem.batch.erase.refold import looking_sources, refold, refuse_earlier_look_ups, retire_releases
from tandem.batch.maintain.remove_rows import log_tables, remove_rows
from tandem.batch.runtime.session import BatchRun
from tandem.infra.settings import Settings
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import Freed
from tandem.ledger.log.adoptions import Adoptions
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasure, Erasures
from tandem.ledger.publish import publications
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release, Releases
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.views.composite.table import reads_records_of
from tandem.views.errors import listed
from tandem.views.project import project
from tandem.views.source.source import Source

Select = Callable[[Source], RecordSelection]
EraseStored = Callable[[str], object]
"""Erases what alerts and sinks have stored of the views of a source; it may be called again."""


@dataclass(frozen=True)
class ErasurePlan:
    """What an erasure would remove; nothing was changed.

    Args:
        rows: the rows to remove, by table.
        views: the views to fold again.
        publications: the retained publications that are retired.
        releases: the standing releases that are retired.
        sources: other sources whose archives have the same records.
    """

    source: Source
    records: FoundRecords
    rows: Mapping[str, int] = field(hash=False)
    views: tuple[str, ...]
    publications: tuple[int, ...]
    releases: tuple[int, ...]
    sources: tuple[str, ...]


@dataclass(frozen=True)
class ErasureResult:
    """The erasure, what was planned for it if it is new, the live publication, and the deleted files."""

    erasure: Erasure
    planned: ErasurePlan | None
    publication: Publication
    freed: Freed


def plan(settings: Settings, tables: Tables, standing: StandingReleases, source: str, select: Select) -> ErasurePlan:
    """What an erasure would remove. Raises NotForgotten, Unreadable."""
    live, release = _live(tables, standing, source)
    definitions = project.load_files(release.files)
    chosen = definitions.sources[source]
    records = find_records(tables, chosen, release.sources[source], select(chosen))
    rows = {
        tables.name(address): rows_of(tables, address, where, records.ranges) if records.ranges.length else 0
        for address, where in log_tables(tables, source)
    }
    keep, at = settings.keep, max(live.at, *(each.at for each in standing.publications.history()))
    since = at - timedelta(days=keep.days)
    retained = publications.retained(standing.publications.history(), keep=keep.publications, since=since)
    states = Followed(standing, keep.release_days).states(at)[1:]
    topics = {topic for (topic, _), _ in records.ranges.intervals}
    others = [
        name for name in definitions.sources if name != source and topics & ArchiveLedger(tables, name).topic_names().keys()
    ]
    return ErasurePlan(
        chosen,
        records,
        {name: count for name, count in rows.items() if count},
        tuple(name for name, view in definitions.views.items() if reads_records_of(view, source)),
        tuple(each.number for each in retained),
        tuple(state.release for state in states),
        tuple(others),
    )


def run(batch: BatchRun, source: str, select: Select | None, *, stored: EraseStored) -> list[ErasureResult]:
    """Finish the unfinished erasures of a source, then erase the selected records, if any. Waits for other runs.

    `stored` is called once the live publication counts without the records.

    Raises NotForgotten before anything is changed, and what a recompute raises.
    """
    tables = batch.tables
    batch.hold("views")
    batch.hold("archive")
    batch.standing.claim()
    live, release = _live(tables, batch.standing, source)
    _refuse_unready(tables, live, release, source)
    erasures = Erasures(tables)
    done = [_finish(batch, erasures, erasure, None, stored) for erasure in erasures.to_finish(source)]
    if select is None:
        return done
    planned = plan(batch.settings, tables, batch.standing, source, select)
    erasure = erasures.intend(source, planned.records.ranges, by=batch.by, at=batch.now())
    return done if erasure is None else [*done, _finish(batch, erasures, erasure, planned, stored)]


def _finish(
    batch: BatchRun, erasures: Erasures, erasure: Erasure, planned: ErasurePlan | None, stored: EraseStored
) -> ErasureResult:
    tables = batch.tables
    by, name = batch.by, erasure.name
    if erasure.stage == "intended":
        batch.say(f"{name}: removing {erasure.ranges.length} records from archive, events and quarantine")
        for address, where in log_tables(tables, erasure.source):
            remove_rows(tables, address, where, erasure.ranges, at=batch.now())
        erasure = erasures.advance(erasure, "removed", publication=0, by=by, at=batch.now())
    if erasure.stage == "removed":
        retire_releases(batch, erasure)
        live, _ = _live(tables, batch.standing, erasure.source)
        published = refold(batch, live, erasure)
        erasure = erasures.advance(erasure, "refolded", publication=published.number, by=by, at=batch.now())
        batch.say(f"{name}: publication {published.number} is live, without the records")
    live, release = _live(tables, batch.standing, erasure.source)
    looking = looking_sources(project.load_files(release.files), erasure.source)
    refuse_earlier_look_ups(tables, live, erasure, looking)
    stored(erasure.source)
    freed = delete_files(batch, live, erasure)
    # Publications before this one may have commits that looked up the records, and that are deleted now.
    publication = live.number if looking else erasure.publication
    erasure = erasures.advance(erasure, "erased", publication=publication, by=by, at=batch.now())
    batch.say(f"{name}: {freed.files} files deleted")
    return ErasureResult(erasure, planned, live, freed)


def _live(tables: Tables, standing: StandingReleases, source: str) -> tuple[Publication, Release]:
    live = standing.publications.latest()
    if live is None:
        raise NotForgotten("nothing is published yet, so nothing is archived; `tandem archive` archives records")
    release = Releases(tables).load(live.release)
    if source not in release.sources:
        raise NotForgotten(f"no source {source!r} is published; sources: {listed(source, release.sources)}")
    return live, release


def _refuse_unready(tables: Tables, live: Publication, release: Release, source: str) -> None:
    """Raise NotForgotten if publishing is paused, or what archives or removes records of the source is incomplete."""
    if live.kind == "rollback":
        raise NotForgotten(f"publication {live.number} is a rollback, so nothing can be published; run `tandem resume` first")
    ledger = ArchiveLedger(tables, source)
    if any(erasure.stage == "expiring" for erasure in Erasures(tables).of(source)):
        raise NotForgotten(f"`tandem maintain` was ended while it removed records of source {source!r}; run it again first")
    if left := Adoptions(tables, source).pending(ledger.archived()):
        raise NotForgotten(f"an adoption of table {left.table} is incomplete; run `tandem adopt` with that table first")
    if ledger.unchecked() is not None or ledger.unfinished(release.sources[source]):
        raise NotForgotten(f"an archive run of source {source!r} is incomplete; run `tandem archive` first")
