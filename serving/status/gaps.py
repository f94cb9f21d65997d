"""A recorded gap, as `status` and `/status` show it."""

from typing import Any

from tandem.ledger.log.gaps import Gap


def gap_document(gap: Gap, *, accepted: bool) -> dict[str, Any]:
    """Its name, how many offsets are lost and why; `warning` says how to continue, and is null once a recompute accepted the
    gap.
    """
    return {
        "name": gap.name,
        "offsets": gap.ranges.length,
        "reason": gap.reason,
        "accepted": accepted,
        "warning": None if accepted else gap.way_on,
    }
