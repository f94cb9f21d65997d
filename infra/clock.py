"""The one place that reads the machine's clock; docs/design/clocks.md says who may, and what a wrong one does at most.

No number hangs on it: it dates publications, runs and logs, and says how old answers are. Waits take `time.monotonic`.
"""

from datetime import UTC, datetime


def now() -> datetime:
    """The time of this machine, in UTC."""
    return datetime.now(UTC)
