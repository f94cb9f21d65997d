"""Recompute batch views from the log, and publish them together with their cut.

* A full run folds everything below the new cut.
* An incremental run folds the events from the published cut to the new one, as one more part of each batch view.
* A run of windows folds the events of these windows again.

The results are compared with what was served over the same range (batch/recompute/audit.py). A difference without an explanation
ends the run before it publishes. Readers ignore the new batch version before one publication names it. A run that is killed
leaves only files and rows that no publication names; the next run starts over.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import Final

from tandem.batch.archive.archive_lineage import table
from tandem.batch.recompute import audit as auditing
from tandem.batch.recompute import plan
from tandem.batch.recompute.build import Built, NewVersion, StepResult, build_all, candidate, commit, version_number
from tandem.batch.recompute.expectations import check, refuse_unmet
from tandem.batch.recompute.plan import RecomputeRequest, RecomputeStep
from tandem.batch.recompute.wait_for_cut import with_cuts
from tandem.batch.runtime.session import BatchRun
from tandem.infra.lineage import data_set
from tandem.infra.lineage.data_set import DataSets, DerivedColumns
from tandem.infra.lineage.runs import ReportedRun, Reporter, reporting
from tandem.infra.logs.telling import bound
from tandem.ledger.delta.errors import Conflict, Unwritable
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.gaps import Gap
from tandem.ledger.log.positions import ranges
from tandem.ledger.publish import adoption, publications
from tandem.ledger.publish.audits import Audit, Audits
from tandem.ledger.publish.batch_parts import BatchView, Windows
from tandem.ledger.publish.completeness import accepted_gaps
from tandem.ledger.publish.publications import NotPublishable, Publication, Publications
from tandem.ledger.publish.standing import Followed
from tandem.views.errors import TandemError
from tandem.views.project import project
from tandem.views.project.column_lineage import lineage
from tandem.views.project.project import Project
from tandem.views.source.source import RECORDS_SCHEMA, events_schema
from tandem.views.view import state_schema

_ALL: Final = RecomputeRequest()

_StepName = tuple[str, Windows | None]
"""The source of a step, and the bounds of its windows."""


@dataclass(frozen=True)
class RecomputeResult:
    """The live publication, what was done for it, the gaps that it counts without, and its audits.

    If `done` is empty, nothing was published: nothing was new, or publishing is `paused`. The views that are `not_rebuilt`
    have no windows that the requested bounds could select.
    """

    publication: Publication
    done: tuple[StepResult, ...]
    gaps: tuple[Gap, ...] = field(default=())
    audits: tuple[Audit, ...] = field(default=())
    paused: bool = False
    not_rebuilt: tuple[str, ...] = ()


def run(batch: BatchRun, working_tree: Callable[[], Project], request: RecomputeRequest = _ALL) -> RecomputeResult:
    """Recompute views of the live release and publish them; a request for a new cut also updates every standing release.

    The first run publishes the working tree. After a rollback nothing is done until publishing is resumed. Waits for another run
    that holds the lock. Raises TandemError; auditing.Unexplained if the served answers differ from the batch's without an
    explanation, and ExpectationUnmet if a condition that stops a publication is not met, unless the request says to publish
    anyway.
    """
    tables = batch.tables
    adoption.live(tables, working_tree, by=batch.by, at=batch.now())
    batch.hold("views")
    batch.standing.claim()
    live = adoption.live(tables, working_tree, by=batch.by, at=batch.now())
    if live.kind == "rollback":
        return RecomputeResult(live, (), paused=True)
    found = _publish(batch, live, request)
    if not request.at_published_cut:
        for state in Followed(batch.standing, batch.settings.keep.release_days).states(batch.now())[1:]:
            _update_standing(batch, state, request)
    return found


def _publish(batch: BatchRun, live: Publication, request: RecomputeRequest) -> RecomputeResult:
    """Build the new parts of the live release, audit them, and publish them."""
    version = _new_version(batch, live, request)
    steps = plan.steps(version.definitions, live, request)
    not_rebuilt = plan.not_rebuilt(version.definitions, request)
    done: dict[_StepName, Built] = {}
    with reporting(batch.settings, now=batch.now, warn=batch.say) as reporter, ExitStack() as reported:
        for step in steps:
            reported.enter_context(_reported(reporter, batch, version, step, done))
        built = build_all(batch, version, with_cuts(batch, version.release, steps), live=True)
        if not built:
            return RecomputeResult(live, (), version.gaps, not_rebuilt=not_rebuilt)
        compared = tuple(audit for one in built for audit in auditing.audits_of(batch.tables, version, one, at=batch.now()))
        Audits(batch.tables).record(compared)
        if not request.publish_anyway:
            auditing.refuse_unexplained(compared)
        commit(batch.tables, version, built)
        compared += tuple(expected := _check_expectations(batch, version, built, live))
        if not request.publish_anyway:
            stays = f"publication {live.number} stays live; --publish-anyway publishes the rows as they are"
            refuse_unmet(expected, stays)

        def following(parent: Publication | None) -> Publication:
            publications.refuse_stale(parent, live, extends=version.definitions.views)
            assert parent is not None  # else it is stale
            return candidate(batch, version, built, parent)

        published = batch.standing.publications.publish(following)
        assert published is not None  # the candidate is never None
        done |= {(one.done.source, one.done.windows): one for one in built}
    with bound(release=published.release, publication=published.number):
        batch.say(f"publication {published.number} is live")
    return RecomputeResult(published, tuple(one.done for one in built), version.gaps, compared, not_rebuilt=not_rebuilt)


def _check_expectations(batch: BatchRun, version: NewVersion, built: Sequence[Built], old: Publication) -> list[Audit]:
    """Check what must hold for the views that were built."""
    new = candidate(batch, version, built, version.base)
    names = [view for each in built for view in each.kept]
    return check(batch, (version.release, old), (version.release, new), names, version=version.number)


def _update_standing(batch: BatchRun, state: Publication, request: RecomputeRequest) -> None:
    """Update the batch views of a standing release to a new cut. A release that fails is no longer kept up to date."""
    tables, name = batch.tables, f"release {state.release}, which is kept beside the live one"
    record = batch.standing.newest(state.release)
    if record is not None and record.stage == "applied":
        return  # `apply` is building it
    batch.say(f"{name}:")
    version = _new_version(batch, state, replace(request, raw=False))
    try:
        steps = plan.steps(version.definitions, state, version.request)
        if built := build_all(batch, version, with_cuts(batch, version.release, steps)):
            commit(tables, version, built)
            refuse_unmet(_check_expectations(batch, version, built, state), "the live release is as it was")
            batch.standing.record("built", candidate(batch, version, built, state), after=state)
    except (Conflict, Unwritable, NotPublishable) as error:
        batch.say(f"{name}, was not updated to the new cut this time: {error}")
    except TandemError as error:
        batch.standing.record("failed", replace(state, why=str(error)), after=state)
        batch.say(f"{name}, is no longer kept up to date: {error}")


def _new_version(batch: BatchRun, state: Publication, request: RecomputeRequest) -> NewVersion:
    release = batch.releases.load(state.release)
    definitions = project.load_files(release.files)
    found = accepted_gaps(batch.tables, state, definitions.sources, request.accepted)
    return NewVersion(version_number(batch.now()), state, release, definitions, request, found)


def _reported(
    reporter: Reporter, batch: BatchRun, version: NewVersion, step: RecomputeStep, built: Mapping[_StepName, Built]
) -> AbstractContextManager[ReportedRun | None]:
    """The run of a step for OpenLineage: events into views. `built` has its result once it is published."""
    tables, name, release = batch.tables, step.source, version.release
    source, views = version.definitions.sources[name], version.definitions.views

    def look() -> DataSets:
        result = built.get((name, step.windows))
        done = None if result is None else result.done
        start, end = (step.start, step.cut) if done is None else (done.start, done.cut)
        covered = None if end is None else ranges(start, end, ArchiveLedger(tables, name).firsts())
        at, schema, raw = tables.events(name, release.sources[name]), events_schema(source), version.request.raw
        read = table(batch, *((tables.archive(name), RECORDS_SCHEMA) if raw else (at, schema)), covered)
        # The columns are those of the events, whichever way they were read.
        of = read if not raw else table(batch, at, schema)
        live = Publications(tables).latest()
        there = live.views if live is not None and live.release == release.number else {}
        stored = {view: there.get(view, BatchView(release.views[view])).address(tables, view) for view in step.views}
        published = live.number if done is not None and live is not None else None
        namespace = batch.settings.lineage.namespace
        outputs = [table(batch, stored[view], state_schema(views[view])) for view in step.views]
        outputs += [data_set.view(namespace, view, DerivedColumns(of, lineage(views[view])), published) for view in step.views]
        return DataSets((read,), tuple(outputs))

    return reporter.run(f"recompute.{name}", "BATCH", look, release=release.number)
