"""Which commits a reader may merge with a batch view: those that tile the log from exactly the cut on.

Pure functions over the spans of one realtime table. All comparisons are of whole position vectors.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tandem.ledger.log.positions import Position
from tandem.ledger.realtime.commits import Span

SpanT = TypeVar("SpanT", bound=Span)


@dataclass(frozen=True)
class Chain(Generic[SpanT]):
    """The commits of the longest tiling `[cut, end)`, in order.

    `bridge` is the bridge at which it stops, if any: readers continue once a batch view covers it. `problem` is a sentence on why
    the commits do not tile the log from this cut; then `commits` must not be used.
    """

    commits: tuple[SpanT, ...]
    end: Position
    bridge: SpanT | None = None
    problem: str | None = None


def chain(spans: Iterable[SpanT], cut: Position, *, across_bridges: bool = False) -> Chain[SpanT]:
    """The commits that tile the log from `cut` on, up to the first bridge; with `across_bridges` beyond it, too.

    A commit is below the cut if it ends at or below it on every partition, and after it if it starts at or above it on every
    partition. A commit that straddles the cut is a problem, as is a gap or an overlap among the commits after it.
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
    """Whether a commit or a mark starts or ends exactly there. Without commits only the log's start is a boundary."""
    known = list(spans)
    return any(position in (span.start, span.end) for span in known) if known else not position.offsets


def end(spans: Iterable[Span]) -> Position | None:
    """Where the table ends, which is where its next commit must start; None if it is empty."""
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
