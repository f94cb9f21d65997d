"""Which commits a reader may add to a batch view: those that tile the log from exactly the cut on.

Pure functions over the spans of one realtime table. All comparisons are of whole position vectors.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ledger.log.positions import Position
from ledger.realtime.commits import Span

SpanT = TypeVar("SpanT", bound=Span)


@dataclass(frozen=True)
class Chain(Generic[SpanT]):
    """The longest tiling `[cut, end)`, in order.

    `bridge` is the bridge that it stops at, if one does: what lies beyond is read once a batch view covers it. `problem` says
    in a sentence why the table cannot be tiled from this cut; then `commits` is not an answer.
    """

    commits: tuple[SpanT, ...]
    end: Position
    bridge: SpanT | None = None
    problem: str | None = None


def chain(spans: Iterable[SpanT], cut: Position, *, across_bridges: bool = False) -> Chain[SpanT]:
    """The commits that tile the log from `cut` on, up to the first bridge; over bridges too if `across_bridges`.

    A commit is below the cut if its end lies at or below it on every partition, after it if its start lies at or above it on
    every partition, else it straddles, which is a problem, as is any gap or overlap among the commits after the cut.
    """
    after: list[SpanT] = []
    for span in spans:
        if span.mark or span.end.at_or_below(cut):
            continue
        if not cut.at_or_below(span.start):
            return Chain((), cut, problem=f"the commit of [{span.start}, {span.end}) straddles the cut {cut}")
        after.append(span)
    path, problem = _path(after, cut)
    bridge = None if across_bridges else next((span for span in path if span.kind == "bridge"), None)
    taken = path[: path.index(bridge)] if bridge is not None else path
    return Chain(tuple(taken), taken[-1].end if taken else cut, bridge, problem)


def boundary(spans: Iterable[Span], position: Position) -> bool:
    """Whether a commit starts or ends, or a mark stands, exactly there. Of no commits, only the log's start is one."""
    known = list(spans)
    return any(position in (span.start, span.end) for span in known) if known else not position.offsets


def end(spans: Iterable[Span]) -> Position | None:
    """Where the table ends: the `start` that its next commit must have; None of an empty table."""
    last: Span | None = None
    for span in spans:
        if last is None or last.end.at_or_below(span.end):
            last = span
    return None if last is None else last.end


def _path(after: list[SpanT], cut: Position) -> tuple[list[SpanT], str | None]:
    by_start: dict[Position, SpanT] = {}
    for span in after:
        other = by_start.setdefault(span.start, span)
        if other is not span:
            return [], f"the commits of [{other.start}, {other.end}) and [{span.start}, {span.end}) overlap"
    path: list[SpanT] = []
    reached = cut
    while reached in by_start:
        path.append(by_start.pop(reached))
        reached = path[-1].end
    if by_start:
        left = min(by_start.values(), key=lambda span: span.start.offsets)
        return path, f"no commit starts at {reached}, but one covers [{left.start}, {left.end})"
    return path, None
