"""Audit a run: how the batch differs from what was served, why, and whether the run may publish."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tandem.batch.rebuild.inputs import SERVED, EarlierStates
from tandem.batch.recompute.build import Built, NewVersion
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import NOTHING, Counts, plus
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.publish.audits import Audit, AuditFigures, Obstacle
from tandem.ledger.publish.label_counts import counted_by_one, repaired
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.commits import looks_up_records_of
from tandem.views.composite.table import looked_up
from tandem.views.errors import TandemError
from tandem.views.verify.cause import cause
from tandem.views.verify.compare import Example, MeasureDifference, tolerance
from tandem.views.view import View


class Unexplained(TandemError, code="audit-differs"):
    """The served answers differ from the batch's without an explanation."""


def audits(
    views: Mapping[str, View],
    against: EarlierStates | Obstacle,
    differences: Mapping[str, Sequence[MeasureDifference]],
    *,
    copies: Mapping[str, int],
    like: Audit,
    late: Collection[str] = (),
) -> Iterator[Audit]:
    """The audits of a source's views; `like` has the fields that they share.

    `copies` is, by view, the most events that duplicates may make only one of the layers count (`counted_by_one`). Of the views
    that are `late` versions of a table came late.
    """
    for name, view in views.items():
        if not isinstance(against, EarlierStates):
            yield replace(like, view=name, obstacle=against)
            continue
        for one in differences[name]:
            yield replace(
                like, view=name, measure=one.measure, figures=figures(view, one, copies=copies[name], late=name in late)
            )


def audits_of(tables: Tables, version: NewVersion, one: Built, *, at: datetime) -> Iterator[Audit]:
    """The audits of what was built for a source of the live release; none of another release.

    Versions of a table came late if they changed, or if a commit has looked up in fewer than the publication before had, or in
    records that were erased since.
    """
    done, base, against = one.done, version.base, one.served
    if against is None:
        return
    chosen = {name: version.definitions.views[name] for name in done.views}
    copies, end = dict.fromkeys(chosen, 0), done.cut
    if isinstance(against, EarlierStates):
        end = against.end
        if against.commits or end != done.cut:
            before = base.counts.get(done.source, NOTHING)
            below = plus(before, one.views.counts) if done.kind == "incremental" else one.views.counts
            beyond = repaired(tables, base, version.release.number, done.source, cut=done.cut, below=below)
            found = Counts(
                duplicates=max(0, below.duplicates - before.duplicates), conflicts=max(0, below.conflicts - before.conflicts)
            )
            copies = {name: counted_by_one(view, found, beyond=beyond) for name, view in chosen.items()}
    late = {name for name, view in chosen.items() if looked_up(view) and (one.late or _knew_less(tables, version, view))}
    like = Audit(at, one.number, base.number, version.release.number, "", "", done.start, end)
    yield from audits(chosen, against, one.views.differences.get(SERVED, {}), copies=copies, like=like, late=late)


def _knew_less(tables: Tables, version: NewVersion, view: View) -> bool:
    """Whether a commit that the view's states may be of has looked up in fewer versions than the publication before had, or in
    records that were erased since.
    """
    cuts = {of.source.name: version.base.cut(of.source.name) for of in looked_up(view).values()}
    erasures = [erasure for erasure in Erasures(tables).every() if erasure.source in cuts]
    for span in spans_of(tables, version.release.number, view.source.name):
        if any(looks_up_records_of(span, erasure) for erasure in erasures):
            return True
        if any(name in span.looked_up and not cut.at_or_below(span.looked_up[name].least) for name, cut in cuts.items()):
            return True
    return False


def refuse_unexplained(found: Sequence[Audit]) -> None:
    """Raise Unexplained if a difference has no cause; the error names the first one."""
    bad = [(audit, audit.figures) for audit in found if audit.figures is not None and audit.figures.cause == "unexplained"]
    if not bad:
        return
    audit, figures = bad[0]
    example = dict(figures.examples[0])
    raise Unexplained(
        f"view {audit.view!r}, measure {audit.measure!r}: {figures.differ} of {figures.rows} answers that were served from "
        f"{audit.start} to {audit.end} differ from the batch's results without an explanation; for {example['row']} "
        f"{example['served']!r} was served and {example['found']!r} was found; {len(bad)} measures differ, and publication "
        f"{audit.served} stays live; `tandem audit` lists them, and --publish-anyway publishes the batch's results"
    )


def figures(view: View, one: MeasureDifference, *, copies: int, late: bool = False) -> AuditFigures:
    """A measure's difference as an audit records it, with its cause."""
    return AuditFigures(
        rows=one.rows,
        unequal=one.unequal,
        differ=one.differ,
        largest=one.largest,
        mean=one.mean,
        smape=one.smape,
        tolerance=tolerance(view, one.measure),
        cause=cause(view, one, copies=copies, late=late),
        examples=tuple(map(_example, one.examples)),
    )


def _example(example: Example) -> dict[str, object]:
    return {"row": dict(example.row), "served": example.served, "found": example.found, "only": example.only}
