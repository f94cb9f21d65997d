"""The outcomes of records that were appended to the log."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Appended:
    """All replicas have the record, at this position; without an offset if the broker only reports that it has it already."""

    partition: int
    offset: int | None


@dataclass(frozen=True)
class NotAppended:
    """No acknowledgement arrived. With `sure` the record is not in the log; else that is unknown. Has Kafka's reason."""

    why: str
    sure: bool


Outcome = Appended | NotAppended
Told = Callable[[Sequence[Outcome]], object]
