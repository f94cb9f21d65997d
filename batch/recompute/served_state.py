"""What merged answers were made of just before a run, over the range of the log that the run folds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from batch.recompute.plan import Step
from ledger.delta import delta_tables
from ledger.delta.addresses import Tables
from ledger.log.gaps import Gap, touching
from ledger.log.positions import LOG_START, Position
from ledger.publish.audits import Obstacle
from ledger.publish.batch_parts import Part, damage
from ledger.publish.publications import Publication
from ledger.realtime.commit_files import read_spans
from ledger.realtime.tiling import chain


@dataclass(frozen=True)
class Served:
    """The parts of each view, and the files of the release's realtime table, that tile what is folded up to `end`.

    Beyond that a bridge lies in the way, which answers do not cross.
    """

    parts: Mapping[str, tuple[Part, ...]] = field(hash=False)
    commits: tuple[str, ...]
    end: Position


def served(tables: Tables, live: Publication, step: Step, *, cut: Position, gaps: Sequence[Gap]) -> Served | Obstacle:
    """What was served of the step's views over `[step.start, cut)`, or why nothing of what the step folds was.

    Within a release a cut is a micro-batch boundary, or the end of a bridge: no micro-batch straddles it. Raises Unreadable.
    """
    source, before = step.source, live.cut(step.source)
    if touching(gaps, source, step.start, cut):
        return "gap"
    parts = {name: live.views[name].parts if step.start == LOG_START else () for name in step.views}
    if any(any(damage(tables, live.views[name].address(tables, name), one)) for name in parts for one in parts[name]):
        return "damage"
    if cut == before:
        return Served(parts, (), cut)
    handle = delta_tables.open_table(tables, tables.realtime(live.release, source))
    paths = {} if handle is None else {span: path for path, span in read_spans(handle, {}).items()}
    passed = [span for span in chain(paths, before).commits if span.end.at_or_below(cut)]
    end = passed[-1].end if passed else before
    return "bridge" if end == step.start else Served(parts, tuple(paths[span] for span in passed), end)
