"""Build a release beside the live one by its plan: begin at the live cut, decode, keep valid batch views, fold the others.

Answers read none of it before the release is promoted.
"""

from dataclasses import dataclass, replace

from tandem.batch.archive.decode_runs import decode_archived
from tandem.batch.recompute.build import NewVersion, build_all, commit, version_number
from tandem.batch.recompute.candidate import candidate
from tandem.batch.recompute.plan import RecomputeRequest
from tandem.batch.release.release_plan import ReleasePlan
from tandem.batch.release.unread_fields import keep_unread
from tandem.batch.runtime.session import BatchRun
from tandem.ledger import cuts
from tandem.ledger.publish.publications import Publication


@dataclass(frozen=True)
class BuiltRelease:
    """The state of a built release, and the number of written bytes of view data."""

    state: Publication
    written: int


def build_release(batch: BatchRun, plan: ReleasePlan) -> BuiltRelease:
    """Build the views that the live release does not have at its cut. If the run is killed, the next run starts over.

    Waits for the lock of archive runs if it decodes the archive. Raises TandemError if a step fails.
    """
    change, tables = plan.change, batch.tables
    for source, cut in plan.cuts.items():
        cuts.begin(tables, change.after.number, source, cut, by=batch.by, at=batch.now())
    batch.standing.record("applied", plan.base)  # from now on the speed layer follows the release from these cuts
    for undecoded in plan.undecoded:
        batch.hold("archive")
        decode_archived(batch, change.after, undecoded)
    base = keep_unread(batch, plan.base, plan.unread)
    steps = [replace(step, views={name: () for name in step.views if not base.views[name].parts}) for step in plan.steps]
    request = RecomputeRequest(keep_cut=True)
    version = NewVersion(version_number(batch.now()), base, change.after, change.new, request, plan.gaps)
    built = build_all(batch, version, steps)
    commit(tables, version, built)
    state = candidate(batch, version, built, base)
    gaps = tuple(dict.fromkeys((*state.gaps, *plan.shorter)))
    record = batch.standing.record("built", replace(state, kind="apply", gaps=gaps))
    return BuiltRelease(record.state, sum(one.done.written for one in built))
