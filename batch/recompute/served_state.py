"""What answers were merged from just before a run, over the range of the log that the run folds."""

from collections.abc import Iterable, Sequence

from tandem.batch.rebuild.inputs import EarlierStates, LogRange
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.log.gaps import Gap, touching
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.audits import Obstacle
from tandem.ledger.publish.batch_parts import damage
from tandem.ledger.publish.publications import Publication
from tandem.ledger.realtime.commit_files import paths_by_span
from tandem.ledger.realtime.tiling import chain


def served(
    tables: Tables, live: Publication, log: LogRange, views: Iterable[str], *, gaps: Sequence[Gap]
) -> EarlierStates | Obstacle:
    """What answers of these views were merged from over the range, or why they cannot be compared.

    Within a release a cut is a micro-batch boundary or the end of a bridge, so no micro-batch straddles it. Raises Unreadable.
    """
    source, cut = log.source.name, log.cut
    if touching(gaps, source, log.start, cut):
        return "gap"
    before = live.cut(source)
    parts = {name: live.views[name].parts if log.start == LOG_START else () for name in views}
    if any(any(damage(tables, live.views[name].address(tables, name), one)) for name in parts for one in parts[name]):
        return "damage"
    realtime = Location.of(tables, tables.realtime(live.release, source))
    if cut == before:
        return EarlierStates(parts, realtime, (), cut)
    paths = paths_by_span(tables, live.release, source)
    passed = [span for span in chain(paths, before).commits if span.end.at_or_below(cut)]
    end = passed[-1].end if passed else before
    return "bridge" if end == log.start else EarlierStates(parts, realtime, tuple(paths[span] for span in passed), end)
