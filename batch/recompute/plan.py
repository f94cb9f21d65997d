"""Plan a recompute: for each source the views to build, the start in the log, and the parts that stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from tandem.batch.rebuild.inputs import Gained, ViewTarget
from tandem.ledger.log.positions import LOG_START, Position, distance
from tandem.ledger.publish.batch_parts import BatchPart, Windows
from tandem.ledger.publish.publications import Publication
from tandem.views.errors import TandemError, listed
from tandem.views.project.project import Project
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
        windows: rebuild only windows that start within these bounds, at the published cut.
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
    fold only these.
    """

    source: str
    kind: Kind
    start: Position
    cut: Position | None
    views: Mapping[str, tuple[BatchPart, ...]] = field(hash=False)
    gained: Mapping[str, Gained] = field(default_factory=dict, hash=False)


def steps(project: Project, state: Publication, request: RecomputeRequest) -> list[RecomputeStep]:
    """The steps of a request, at most one for each source; `state` is the newest state of the release.

    Raises BadRequest for a view that does not exist or cannot be built in part.
    """
    for name in request.views:
        if name not in project.views:
            raise BadRequest(f"no view {name!r} is published; views: {listed(name, project.views)}")
    chosen = {name: view for name, view in project.views.items() if not request.views or name in request.views}
    if request.windows is not None:
        chosen = _buildable(chosen, request.windows, named=bool(request.views))
    of = {source: [name for name, view in chosen.items() if view.source.name == source] for source in project.sources}
    found = (_step(source, views, state, request) for source, views in of.items())
    return [step for step in found if step is not None]


def _step(source: str, views: Sequence[str], state: Publication, request: RecomputeRequest) -> RecomputeStep | None:
    whole = dict.fromkeys(views, ())
    published = state.cut(source)
    parts = {name: state.views[name].parts for name in views}
    if request.at_published_cut:
        if not views or not published.offsets:
            return None
        if request.windows is None:
            return RecomputeStep(source, "full", LOG_START, published, whole)
        return RecomputeStep(source, "windows", LOG_START, published, parts)
    if request.mode == "full" or request.raw or not published.offsets:
        return RecomputeStep(source, "full", LOG_START, None, whole)
    return RecomputeStep(source, "incremental", published, None, parts)


def merged(target: ViewTarget, added: int) -> tuple[BatchPart, ...]:
    """The newest parts of a batch view, which are merged with the states of `added` new offsets.

    Each part that stays covers more than twice as much as the next one. So the number of parts grows with the logarithm of the
    history, and each state is written about that often. A view whose windows depend on log order has one part.
    """
    parts = target.batch_view.parts
    if target.in_log_order or len(parts) >= _MOST_PARTS:
        return parts
    first, covered = len(parts), added
    while first and parts[first - 1].windows is None:
        before = parts[first - 2].end if first > 1 else LOG_START
        covers = distance(before, parts[first - 1].end)
        if covers > 2 * covered:
            break
        first, covered = first - 1, covered + covers
    return parts[first:]


def _buildable(views: Mapping[str, View], windows: Windows, *, named: bool) -> dict[str, View]:
    """The views whose windows within the bounds can be rebuilt separately.

    Raises BadRequest for a named view that has no such windows, and for bounds that cut one.
    """
    found = {}
    for name, view in views.items():
        begins = bind(view).placement.timing.begins
        if begins is None:
            if named:
                raise BadRequest(
                    f"view {name!r} has window {view.window}, whose contents depend on more than the events' times; recompute it "
                    "without --from and --to"
                )
            continue
        for bound in windows:
            if not begins(bound):
                raise BadRequest(f"view {name!r} has window {view.window}, but no slice of it begins at {bound.isoformat()}")
        found[name] = view
    if not found:
        raise BadRequest("no view has windows that can be recomputed separately")
    return found
