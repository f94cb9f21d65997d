"""Which states of a part of a batch view are live."""

from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from tandem.ledger.publish.batch_parts import BatchPart, Windows
from tandem.views.source.event import TIMESTAMP
from tandem.views.windows import WINDOW_COLUMNS


def still_live(states: pa.Table, later: Sequence[BatchPart]) -> pa.Table:
    """The states of a part that no later part replaces."""
    for start, end in (part.windows for part in later if part.windows):
        states = states.filter(~_starting_within(start, end))
    return states


def starting_within(states: pa.Table, windows: Windows) -> pa.Table:
    """The states whose windows start within the bounds."""
    return states.filter(_starting_within(*windows))


def _starting_within(start: datetime, end: datetime) -> pc.Expression:
    column = pc.field(WINDOW_COLUMNS[0])
    return (column >= pa.scalar(start, TIMESTAMP)) & (column < pa.scalar(end, TIMESTAMP))
