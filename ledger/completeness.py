"""Whether the archive still has what the live views counted: what is built from it anew would else count less."""

from ledger import archive
from ledger.positions import LOG_START, ranges
from ledger.publications import Publication
from ledger.tables import Tables


def shorter_history(tables: Tables, live: Publication, source: str) -> str | None:
    """What the archive lacks of what the live views of a source counted, for a sentence; None if it has all of it."""
    counts = live.counts.get(source)
    if counts is None:
        return None
    covered = ranges(LOG_START, live.cut(source), archive.firsts(tables, source)).length
    lacking = counts.records + sum(counts.quarantined.values()) + counts.others + counts.holes - covered
    return f"shorter history of {source}: {lacking} offsets" if lacking > 0 else None
