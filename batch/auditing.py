"""A run's audits: what differs from what was served, why, and whether the run may publish in spite of it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from batch.served import Served
from ledger.audits import Audit, Figures, Obstacle
from views.cause import cause
from views.compare import Example, MeasureDifference, tolerance
from views.errors import TandemError
from views.view import View


class Unexplained(TandemError):
    """What was served differs from what the batch found, and nothing that is known explains it."""


def audits(
    views: Mapping[str, View],
    against: Served | Obstacle,
    differences: Mapping[str, Sequence[MeasureDifference]],
    *,
    copies: Mapping[str, int],
    like: Audit,
) -> Iterator[Audit]:
    """The audits of the views of a source; `like` has what all of them share.

    `copies` counts, by view, those in the range that the layers may have counted otherwise.
    """
    for name, view in views.items():
        if not isinstance(against, Served):
            yield replace(like, view=name, obstacle=against)
            continue
        for one in differences[name]:
            yield replace(like, view=name, measure=one.measure, figures=_figures(view, one, copies[name]))


def refuse_unexplained(found: Sequence[Audit]) -> None:
    """Raise Unexplained, naming the first difference that has no cause, if there is one."""
    bad = [(audit, audit.figures) for audit in found if audit.figures is not None and audit.figures.cause == "unexplained"]
    if not bad:
        return
    audit, figures = bad[0]
    example = dict(figures.examples[0])
    raise Unexplained(
        f"view {audit.view!r}, measure {audit.measure!r}: {figures.differ} of {figures.rows} answers that were served from "
        f"{audit.start} to {audit.end} differ from what the batch found, and nothing explains it; of {example['row']} "
        f"{example['served']!r} was served and {example['found']!r} was found; {len(bad)} measures differ so, and publication "
        f"{audit.served} stays; `tandem audit` shows them all, and --publish-anyway publishes what the batch found"
    )


def _figures(view: View, one: MeasureDifference, copies: int) -> Figures:
    return Figures(
        rows=one.rows,
        unequal=one.unequal,
        differ=one.differ,
        largest=one.largest,
        mean=one.mean,
        smape=one.smape,
        tolerance=tolerance(view, one.measure),
        cause=cause(view, one, copies=copies),
        examples=tuple(map(_example, one.examples)),
    )


def _example(example: Example) -> dict[str, object]:
    return {"row": dict(example.row), "served": example.served, "found": example.found, "only": example.only}
