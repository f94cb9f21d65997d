"""Whether the archive is complete enough to build views again: otherwise they would count less than the live ones."""

from collections.abc import Iterable

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log import gaps
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.gaps import Gap, Gaps
from tandem.ledger.log.positions import LOG_START, ranges
from tandem.ledger.publish.publications import Publication
from tandem.views.errors import TandemError


class ShorterHistory(TandemError, code="history-shorter"):
    """The archive no longer has all records that the live views counted."""


def accepted_gaps(tables: Tables, state: Publication, sources: Iterable[str], accepted: Iterable[str]) -> tuple[Gap, ...]:
    """All gaps of the sources. Raises gaps.GapNotAccepted for a gap that neither this run nor the earlier state accepts."""
    found = tuple(gap for source in sources for gap in Gaps(tables).of(source))
    gaps.refuse_unaccepted(list(found), (*accepted, *(gap.name for gap in found if gap.name in state.gaps)))
    return found


def shorter_histories(tables: Tables, live: Publication, sources: Iterable[str], *, accepted: bool) -> tuple[str, ...]:
    """A sentence for each source of which the archive lacks counted records. Raises ShorterHistory unless they are accepted."""
    found = tuple(words for source in sources if (words := _shorter(tables, live, source)) is not None)
    if found and not accepted:
        raise ShorterHistory(
            f"the archive has lost records that the live views counted ({'; '.join(found)}), so the new views would count less; "
            "--accept-shorter-history builds them from the remaining records"
        )
    return found


def _shorter(tables: Tables, live: Publication, source: str) -> str | None:
    counts = live.counts.get(source)
    if counts is None:
        return None
    covered = ranges(LOG_START, live.cut(source), ArchiveLedger(tables, source).firsts()).length
    lacking = counts.offsets - covered
    return f"shorter history of {source}: {lacking} offsets" if lacking > 0 else None
