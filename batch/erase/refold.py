"""Fold all views of a source again without its erased records, and publish them in one publication."""

from collections.abc import Iterable
from dataclasses import replace

from tandem.batch.erase.find_records import NotForgotten
from tandem.batch.recompute import plan
from tandem.batch.recompute.build import NewVersion, build_all, candidate, commit, version_number
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.recompute.wait_for_cut import with_cuts
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.erasures import Erasure
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.ledger.publish import promotion, publications
from tandem.ledger.publish.completeness import accepted_gaps
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.standing import Followed
from tandem.ledger.realtime.commit_files import read_spans
from tandem.ledger.realtime.commits import looks_up_records_of
from tandem.views.composite.table import looked_up
from tandem.views.counted import counted
from tandem.views.project import project
from tandem.views.project.project import Project


def retire_releases(batch: BatchRun, erasure: Erasure) -> list[int]:
    """Retire the standing releases: their views and realtime tables count the records. Returns their numbers."""
    standing = batch.standing
    days = batch.settings.keep.release_days
    retired = [state.release for state in Followed(standing, days).states(batch.now())[1:]]
    for release in retired:
        promotion.retire(standing, release, by=batch.by, at=batch.now(), why=f"it counts records of erasure {erasure.name}")
    return retired


def refold(batch: BatchRun, live: Publication, erasure: Erasure) -> Publication:
    """Publish the source's views, folded from the log's start to a new cut, and views that look up in its tables.

    They are compared with nothing.

    Raises NotForgotten if the new cut does not lie above every erased record, and what a recompute raises.
    """
    release = batch.releases.load(live.release)
    definitions = project.load_files(release.files)
    gaps = accepted_gaps(batch.tables, live, definitions.sources, ())
    request = RecomputeRequest(mode="full")
    version = NewVersion(version_number(batch.now()), live, release, definitions, request, gaps)
    sources = {erasure.source, *looking_sources(definitions, erasure.source)}
    steps = [step for step in plan.steps(definitions, live, request) if step.source in sources]
    built = build_all(batch, version, with_cuts(batch, release, steps))
    for step in (each for each in built if each.done.source == erasure.source):
        if above := erasure.ranges.without(ranges(LOG_START, step.done.cut)).length:
            raise NotForgotten(
                f"{above} records of erasure {erasure.name} lie above cut {step.done.cut}, where the speed layer counts them; "
                f"run `tandem archive`, then `tandem forget {erasure.source} --finish --yes`"
            )
    commit(batch.tables, version, built)

    def following(parent: Publication | None) -> Publication:
        publications.refuse_stale(parent, live, extends=definitions.views)
        assert parent is not None  # else it is stale
        return replace(candidate(batch, version, built, parent), why=f"erasure {erasure.name}")

    published = batch.standing.publications.publish(following)
    assert published is not None  # the candidate is never None
    return published


def looking_sources(definitions: Project, source: str) -> set[str]:
    """The sources whose views look up in a table of a source."""
    views = definitions.views.values()
    return {view.source.name for view in views for of in looked_up(view).values() if of.source.name == source}


def refuse_earlier_look_ups(tables: Tables, live: Publication, erasure: Erasure, looking: Iterable[str]) -> None:
    """Raise NotForgotten if commits above a cut have looked up the records: before the speed layer read the refolded versions."""
    for source in sorted(looking):
        handle = delta_tables.open_table(tables, tables.realtime(live.release, source))
        spans = [] if handle is None else [*read_spans(handle, {}).values()]
        cut = live.cut(source)
        if number := sum(not span.end.at_or_below(cut) and looks_up_records_of(span, erasure) for span in spans):
            raise NotForgotten(
                f"{counted(number, 'micro-batch')} of {source} above cut {cut} looked up records of erasure {erasure.name}; run "
                f"`tandem archive` and `tandem recompute`, then `tandem forget {erasure.source} --finish --yes`"
            )
