"""A recorded gap as `status` and `/status` show it."""

from typing import Any

from ledger.log.gaps import Gap


def gap_document(gap: Gap, *, accepted: bool) -> dict[str, Any]:
    """Its name, how many offsets are lost and why; the `warning` says how to go on, and is null once a recompute accepted it."""
    return {
        "name": gap.name,
        "offsets": gap.ranges.length,
        "reason": gap.reason,
        "accepted": accepted,
        "warning": None if accepted else gap.way_on,
    }
