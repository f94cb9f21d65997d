"""Plan a recompute: for each source the views to build, the start in the log, and the parts that stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Literal

from tandem.batch.rebuild.inputs import Gained, ViewTarget
from tandem.ledger.log.positions import LOG_START, Position, distance
from tandem.ledger.publish.batch_parts import BatchPart, Windows
from tandem.ledger.publish.publications import Publication
from tandem.views.composite.rollup import root
from tandem.views.composite.table import kind_of, looked_up
from tandem.views.errors import TandemError, listed
from tandem.views.instant import MICROSECOND, utc_text
from tandem.views.kernel.first_window import first_window
from tandem.views.project.project import Project
from tandem.views.source.watermark import Maxima
from tandem.views.view import View, bind

Mode = Literal["auto", "incremental", "full"]
Kind = Literal["incremental", "full", "windows"]

# A reader opens each part once; beyond these all become one.
_MOST_PARTS: Final = 24


class BadRequest(TandemError, code="recompute-impossible"):
    """The requested recompute is not possible."""


@dataclass(frozen=True)
class RecomputeRequest:
    """What the command requests.

    Args:
        mode: `auto` is incremental if there is a published cut.
        views: rebuild only these, at the published cut; empty means every view, up to a new cut.
        windows: rebuild only the windows that these bounds touch, at the published cut.
        keep_cut: rebuild every view at the published cut.
        raw: decode the archive again instead of reading the events tables.
        accepted: names of gaps to count without; those of the live publication stay accepted.
        publish_anyway: publish also if the served answers differ from the batch's without an explanation.
    """

    mode: Mode = "auto"
    views: tuple[str, ...] = ()
    windows: Windows | None = None
    keep_cut: bool = False
    raw: bool = False
    accepted: tuple[str, ...] = ()
    publish_anyway: bool = False

    @property
    def at_published_cut(self) -> bool:
        """Whether the published cuts stay."""
        return self.keep_cut or bool(self.views) or self.windows is not None

    def __post_init__(self) -> None:
        if self.at_published_cut and self.mode == "incremental":
            raise BadRequest(
                "--mode incremental cannot be combined with VIEW or --keep-cut: all views of a source move to a new cut together"
            )
        if self.raw and (self.mode == "incremental" or self.windows is not None):
            raise BadRequest("--raw needs --mode full, and cannot be combined with --from or --to")
        if self.windows is not None and not self.windows[0] < self.windows[1]:
            raise BadRequest(f"--to {self.windows[1].isoformat()} is not after --from {self.windows[0].isoformat()}")


@dataclass(frozen=True)
class RecomputeStep:
    """What to do for one source: fold the events from `start` to `cut` (None: a new one) into `views`.

    `views` has the existing parts of each view, of which an incremental step may merge the newest. Views that `gained` measures
    fold only these. A step of `windows` replaces the windows that start within these bounds.
    """

    source: str
    kind: Kind
    start: Position
    cut: Position | None
    views: Mapping[str, tuple[BatchPart, ...]] = field(hash=False)
    gained: Mapping[str, Gained] = field(default_factory=dict, hash=False)
    windows: Windows | None = None


def steps(project: Project, state: Publication, request: RecomputeRequest) -> list[RecomputeStep]:
    """The steps of a request: one for each source, or for each source and the bounds of the windows that its views rebuild.

    `state` is the newest state of the release. Raises BadRequest for a named view that does not exist, or that cannot rebuild
    exactly the requested windows, and if no view has windows that can be rebuilt.
    """
    for name in request.views:
        if (rollup := project.rollups.get(name)) is not None:
            raise BadRequest(
                f"view {name!r} is a {kind_of(rollup).removesuffix(' of table')} and has no states; recompute "
                f"{root(rollup).name!r}, whose states it unites"
            )
        if name not in project.views and name not in project.united:
            names = [each for each in project.every_view if each not in project.rollups]
            raise BadRequest(f"no view {name!r} is published; views: {listed(name, names)}")
    chosen = _chosen(project, request)
    bounds = (
        dict.fromkeys(chosen, None) if request.windows is None else _bounds(chosen, request.windows, exact=bool(request.views))
    )
    for name, windows in bounds.items():
        first = state.views[name].first_window if name in state.views else None
        if windows is not None and first is not None and windows[0] < first:
            raise BadRequest(
                f"windows before {utc_text(first)} have left view {name!r}, which keeps {chosen[name].keep}: "
                f"ask for windows from there on, `--from {utc_text(first)}`"
            )
    of = {source: [name for name in bounds if chosen[name].source.name == source] for source in tables_first(project)}
    found = (
        _step(source, [name for name in views if bounds[name] == windows], state, request, windows)
        for source, views in of.items()
        for windows in dict.fromkeys(bounds[name] for name in views) or (None,)
    )
    return [step for step in found if step is not None]


def tables_first(project: Project) -> list[str]:
    """The names of the sources, those of tables in which views look up before the others."""
    first = {of.source.name for view in project.views.values() for of in looked_up(view).values()}
    return sorted(project.sources, key=lambda name: name not in first)


def refuse_missing_records(step: RecomputeStep, views: Mapping[str, View], maxima: Maxima, until: datetime | None) -> None:
    """Raise BadRequest for a step that would fold windows from a part of their events, because the source keeps no others.

    `until` is the greatest event time of records that the source keeps no longer. The first window of a view follows from the
    `maxima` below the cut; without maxima it is not decided yet.
    """
    if until is None or step.kind == "incremental" or not maxima:
        return
    for name in step.views:
        begins = [time for time in (first_window(views[name], maxima), step.windows and step.windows[0]) if time is not None]
        if not begins or max(begins) <= until:
            counted = f"windows from {utc_text(max(begins))} on" if begins else "all windows"
            raise BadRequest(
                f"view {name!r} would count {counted}, but records of source {step.source} with events until "
                f"{utc_text(until)} have expired; give the view a keep with which only windows after that stay"
            )


def not_rebuilt(project: Project, request: RecomputeRequest) -> tuple[str, ...]:
    """The views that a request for some windows leaves as they are: their windows cannot be rebuilt separately."""
    if request.windows is None:
        return ()
    return tuple(name for name, view in _chosen(project, request).items() if bind(view).placement.timing.slice_at is None)


def _chosen(project: Project, request: RecomputeRequest) -> dict[str, View]:
    wholes = {name: whole.name for name, whole in project.wholes.items()}
    return {
        name: view
        for name, view in project.views.items()
        if not request.views or name in request.views or wholes.get(name) in request.views
    }


def _step(
    source: str, views: Sequence[str], state: Publication, request: RecomputeRequest, windows: Windows | None
) -> RecomputeStep | None:
    whole = dict.fromkeys(views, ())
    published = state.cut(source)
    parts = {name: state.views[name].log_parts for name in views}
    if request.at_published_cut:
        if not views or not published.offsets:
            return None
        if windows is None:
            return RecomputeStep(source, "full", LOG_START, published, whole)
        return RecomputeStep(source, "windows", LOG_START, published, parts, windows=windows)
    if request.mode == "full" or request.raw or not published.offsets:
        return RecomputeStep(source, "full", LOG_START, None, whole)
    return RecomputeStep(source, "incremental", published, None, parts)


def merged(target: ViewTarget, added: int) -> tuple[BatchPart, ...]:
    """The newest parts of a batch view, which are merged with the states of `added` new offsets.

    Each part that stays covers more than twice as much as the next one. So the number of parts grows with the logarithm of the
    history, and each state is written about that often. A view whose windows depend on log order has one part. All parts of a
    view are merged, without the windows that have left, once these span a quarter of what it keeps.
    """
    parts, gone, keep = target.batch_view.log_parts, target.batch_view.gone, target.view.keep
    if target.in_log_order or len(parts) >= _MOST_PARTS:
        return parts
    if gone is not None and keep is not None and gone[1] - gone[0] > keep / 4:
        return parts
    first, covered = len(parts), added
    while first and parts[first - 1].windows is None:
        before = parts[first - 2].end if first > 1 else LOG_START
        covers = distance(before, parts[first - 1].end)
        if covers > 2 * covered:
            break
        first, covered = first - 1, covered + covers
    return parts[first:]


def _bounds(views: Mapping[str, View], windows: Windows, *, exact: bool) -> dict[str, Windows]:
    """By view whose windows can be rebuilt separately, the bounds of all its windows that the given bounds touch.

    Raises BadRequest if no view has such windows; with `exact` also for each view without, and for bounds that cut a window.
    """
    found = {}
    for name, view in views.items():
        slice_at = bind(view).placement.timing.slice_at
        if slice_at is None:
            if exact:
                raise BadRequest(
                    f"view {name!r} has window {view.window}, whose contents depend on more than the events of a span of time; "
                    "recompute it without --from and --to"
                )
            continue
        touched = slice_at(windows[0])[0], slice_at(windows[1] - MICROSECOND)[1]
        if exact and touched != windows:
            bound = next(bound for bound, whole in zip(windows, touched, strict=True) if bound != whole)
            raise BadRequest(
                f"view {name!r} has window {view.window}, but no slice of it begins at {bound.isoformat()}; `--from "
                f"{utc_text(touched[0])} --to {utc_text(touched[1])}` names the windows that this range touches"
            )
        found[name] = touched
    if not found:
        raise BadRequest("no view has windows that can be recomputed separately")
    return found
