"""The part of the settings' bounds that each of several workers has."""

from typing import Final

import msgspec

from infra.settings import Serving

_SHARED: Final = (
    "rate",
    "burst",
    "failed_logins",
    "concurrent",
    "streams",
    "concurrent_streams",
    "statements",
    "unread_mb",
    "connections",
    "connections_per_address",
    "ingest_mb",
    "held_mb",
    "memory_mb",
)
"""What holds for a whole server. All other bounds are of one request, one response or one connection."""


def share_of(serving: Serving, workers: int) -> Serving:
    """The settings of one of this many workers: equal parts, rounded down, but at least 1."""
    return msgspec.structs.replace(serving, **{name: max(1, getattr(serving, name) // workers) for name in _SHARED})
