"""Times as the whole microseconds since 1970 in which identities are kept."""

from datetime import UTC, datetime, timedelta
from typing import Final

MICROSECOND: Final = timedelta(microseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - _EPOCH) // MICROSECOND


def time_of(microseconds: int) -> datetime:
    """Inverse of `microseconds`, in UTC."""
    return _EPOCH + microseconds * MICROSECOND
